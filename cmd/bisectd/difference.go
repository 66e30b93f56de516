package main

import (
	"cmp"
	"fmt"
	"strings"

	"bisectd/bisect"
)

// difference is one respect in which two results of a job differ.
type difference struct {
	What   string `json:"what"`
	Stored string `json:"stored"`
	Now    string `json:"now"`
}

// differences compares what two results say, not what they cost: the class,
// the commits, the signal, the verdicts of the walk, and each finding.
func differences(stored, now bisect.Result) []difference {
	list := []difference{}
	add := func(what, before, after string) {
		if before != after {
			list = append(list, difference{what, before, after})
		}
	}
	add("class", string(stored.Class), string(now.Class))
	add("first new commit", named(stored.FirstNew), named(now.FirstNew))
	add("suspects left", fmt.Sprint(len(stored.Suspects)), fmt.Sprint(len(now.Suspects)))
	add("other changes", others(stored), others(now))
	add("walked on", guide(stored), guide(now))
	before, after := verdicts(stored), verdicts(now)
	for _, t := range append(stored.Tests, now.Tests...) {
		id := t.Commit.ID
		add("verdict on "+t.Commit.Short(), cmp.Or(before[id], "not tested"), cmp.Or(after[id], "not tested"))
		delete(before, id) // each commit once
		delete(after, id)
	}
	add("metric", stored.Job.Judge.Metric, now.Job.Judge.Metric)
	for i := range max(len(stored.Findings), len(now.Findings)) {
		what, is := finding(now, i)
		was := ""
		if i < len(stored.Findings) {
			what, was = finding(stored, i)
		}
		add("the pair at "+what, was, is)
	}
	return list
}

func named(c *bisect.Commit) string {
	if c == nil {
		return "none"
	}
	return c.String()
}

// others lists the changes beside the one that answers the job.
func others(r bisect.Result) string {
	var list []string
	for i, c := range r.Changes {
		if i > 0 {
			list = append(list, fmt.Sprintf("%s (%s)", c.FirstNew.Short(), c.Class))
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func guide(r bisect.Result) string {
	if r.Guide == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s", r.Guide.Kind, r.Guide.Name)
}

// verdicts returns the last verdict on each commit tested.
func verdicts(r bisect.Result) map[string]string {
	last := map[string]string{}
	for _, t := range r.Tests {
		last[t.Commit.ID] = t.Verdict.String()
	}
	return last
}

// finding returns the machine and the outcome of one finding.
func finding(r bisect.Result, i int) (machine, outcome string) {
	if i >= len(r.Findings) {
		return "", "not compared"
	}
	f := r.Findings[i]
	return fmt.Sprintf("%d vCPU", f.VCPUs), fmt.Sprintf("%s, %s %s by %+.1f %%", f.Class, f.Shift.Metric, f.Shift.Decision,
		100*f.Shift.Effect)
}
