// Package report renders results for people and for programs. It adds no
// judgement: the class and its reasons are those of the result.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"bisectd/bisect"
)

// JSON writes the whole result, indented, under the names of bisect.Result.
func JSON(w io.Writer, r bisect.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// titles are the classes as a headline begins with them.
var titles = map[bisect.Class]string{
	bisect.Regression:       "Regression",
	bisect.BehaviourChange:  "Behaviour change",
	bisect.Improvement:      "Improvement",
	bisect.EnvironmentShift: "Environment shift",
	bisect.Layout:           "Layout",
	bisect.NotReproduced:    "Not reproduced",
	bisect.Inconclusive:     "Inconclusive",
}

// meanings say what a class means for somebody who uses the kernel.
var meanings = map[bisect.Class]string{
	bisect.Regression:       "A correct user is worse off.",
	bisect.BehaviourChange:  "No correct user is worse off: the number moved because its meaning did.",
	bisect.Improvement:      "The same work is done better.",
	bisect.EnvironmentShift: "The conditions of the measurement changed, not the work.",
	bisect.Layout:           "The code moved in memory; what it does costs the same.",
	bisect.NotReproduced:    "No commit is to blame for anything that was measured here.",
	bisect.Inconclusive:     "What was observed does not single out one commit and one kind of change.",
}

// Summary says in one line, without a line break, what came out.
func Summary(r bisect.Result) string {
	s := headline(r)
	if f := decisive(r); f != nil && f.Shift.Decision == bisect.Moved {
		s += fmt.Sprintf(", %s %s", f.Shift.Metric, percent(f.Shift.Effect))
	}
	return printable(s) + fmt.Sprintf(" (%s)", count(r.Boots, "boot"))
}

// headline is the class and the commit that it is about.
func headline(r bisect.Result) string {
	title := titles[r.Class]
	if title == "" {
		title = string(r.Class)
	}
	switch {
	case r.FirstNew != nil:
		return title + ": " + r.FirstNew.String()
	case len(r.Suspects) > 0:
		return fmt.Sprintf("%s: the change is in one of %s", title, count(len(r.Suspects), "commit"))
	case r.Commits == 0:
		return fmt.Sprintf("%s: %s against %s", title, r.Bad, r.Good)
	}
	return fmt.Sprintf("%s: good %s (%s) against bad %s (%s)", title,
		strings.Join(r.Job.Good, ", "), r.Good.Short(), r.Job.Bad, r.Bad.Short())
}

// decisive returns the finding that the class rests on: that of the lowest
// vCPU count which has the result's class. Nil without findings.
func decisive(r bisect.Result) *bisect.Finding {
	for i := range r.Findings {
		if r.Findings[i].Class == r.Class {
			return &r.Findings[i]
		}
	}
	if len(r.Findings) > 0 {
		return &r.Findings[0]
	}
	return nil
}
