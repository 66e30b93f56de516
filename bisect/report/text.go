package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"bisectd/bisect"
	"bisectd/workloads"
	"bisectd/workloads/probes"
)

// How much of a long list the text shows, so that all but the list of tested
// commits fits on one page. The reasons get the lines that are left.
const (
	pageLines     = 60
	mostSeen      = 3
	mostCounts    = 2
	mostCallbacks = 3
	mostSuspects  = 6
)

// Text writes the report that is meant to be read: the verdict first, then
// what a user notices, the reasons, the numbers, and last what was done.
func Text(w io.Writer, r bisect.Result) error {
	var top, rest, list page
	verdict(&top, r)
	suspects(&top, r)
	if seen := sees(r); len(seen) > 0 {
		top.section("What a user sees")
		top.items(seen[:min(len(seen), mostSeen)], 2*mostSeen, 2)
	}
	changes(&rest, r)
	metric(&rest, r)
	contract(&rest, r)
	callbacks(&rest, r)
	if f := decisive(r); f != nil && f.Naive != "" {
		rest.WriteString("\n")
		rest.prose("", "A naive comparison would have said: "+f.Naive+".", 2)
	}
	conditions(&rest, r)
	if len(r.Reasons) > 0 {
		top.section("Why")
		top.items(r.Reasons, pageLines-top.lines()-rest.lines(), 3)
	}
	tested(&list, r)
	p := top.String() + rest.String() + list.String()
	if _, err := io.WriteString(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// verdict writes the headline and on how much it rests.
func verdict(p *page, r bisect.Result) {
	p.prose("", headline(r), 2)
	p.prose("", meanings[r.Class], 1)
	fresh := 0
	var classes []string
	for _, f := range r.Findings {
		fresh += len(f.Shift.Old.Boots) + len(f.Shift.New.Boots)
		if entry := fmt.Sprintf("%d %s", f.VCPUs, f.Class); f.Class != r.Class {
			classes = append(classes, entry)
		}
	}
	if len(classes) > 0 {
		p.prose("", "Other vCPU counts give another class: "+strings.Join(classes, ", ")+".", 1)
	}
	if r.FirstNew != nil && r.Parent != nil && fresh > 0 {
		p.prose("", fmt.Sprintf("Confirmed by %s of it and its parent %s.",
			count(fresh, "measured boot"), r.Parent.Short()), 1)
		return
	}
	p.prose("", fmt.Sprintf("It rests on %s.", count(r.Boots, "boot")), 1)
}

// suspects lists what an inconclusive walk has left.
func suspects(p *page, r bisect.Result) {
	if r.FirstNew != nil || len(r.Suspects) == 0 {
		return
	}
	p.section("One of these made the change, parents first")
	for i, c := range r.Suspects {
		if i == mostSuspects {
			p.line("  and %d more, in the JSON report", len(r.Suspects)-i)
			return
		}
		p.prose("  ", c.String(), 1)
	}
}

// sees says what changes for somebody who uses the kernel, contracts first.
func sees(r bisect.Result) []string {
	var seen []string
	for _, i := range invariants(r, func(f bisect.Finding) []bisect.InvariantPair { return f.Broken }) {
		seen = append(seen, fmt.Sprintf("broken: %s Now %s.", promise(i.Name), measured(i.New)))
	}
	for _, i := range invariants(r, func(f bisect.Finding) []bisect.InvariantPair { return f.Mended }) {
		seen = append(seen, fmt.Sprintf("mended: %s Now %s.", promise(i.Name), measured(i.New)))
	}
	for _, m := range flipped(r) {
		seen = append(seen, fmt.Sprintf("%s Before: %s. Now: %s.", promise(m.Name), yes(m.Old), yes(m.New)))
	}
	if f := decisive(r); f != nil && f.Shift.Decision == bisect.Moved {
		seen = append(seen, fmt.Sprintf("%s goes from %s to %s, %s being better.", f.Shift.Metric,
			workloads.Quantity(f.Shift.Old.Mean, f.Shift.Unit),
			workloads.Quantity(f.Shift.New.Mean, f.Shift.Unit), f.Shift.Better))
	}
	if r.Class == bisect.NotReproduced && len(seen) == 0 {
		seen = append(seen, "Nothing: the results are the same on both sides.")
	}
	return seen
}

// promise is what an invariant promises or a marker states.
func promise(name string) string {
	if m := probes.Meaning(name); m != "" {
		return m
	}
	return name + "."
}

func yes(m workloads.Marker) string {
	word := "no"
	if m.Seen {
		word = "yes"
	}
	return word + ", " + m.Detail
}

// measured writes an invariant's value beside its bound.
func measured(i workloads.Invariant) string {
	return fmt.Sprintf("%s, bound %s", workloads.Quantity(i.Value, i.Unit), workloads.Quantity(i.Bound, i.Unit))
}

// metric writes the job's metric at the final pair and at the ends.
func metric(p *page, r bisect.Result) {
	rows := [][]string{{"", "old", "new", "effect", "95 % interval", "boots"}}
	add := func(s bisect.Shift, vcpus int, where string) {
		if len(s.Old.Boots)+len(s.New.Boots) == 0 {
			return
		}
		rows = append(rows, []string{fmt.Sprintf("%d vCPU, %s", vcpus, where),
			workloads.Quantity(s.Old.Mean, s.Unit), workloads.Quantity(s.New.Mean, s.Unit), percent(s.Effect),
			interval(s.Low, s.High), fmt.Sprintf("%d + %d", len(s.Old.Boots), len(s.New.Boots))})
	}
	what := "commit"
	if r.Commits == 0 {
		what = "kernels"
	}
	for i, f := range r.Findings {
		if i < mostCounts {
			add(f.Shift, f.VCPUs, what)
		}
	}
	// The last ones are those that made the walk, where there was one.
	for i := max(0, len(r.Ends)-mostCounts); i < len(r.Ends); i++ {
		add(r.Ends[i], r.EndVCPUs[i], "ends")
	}
	if len(rows) == 1 {
		return
	}
	p.section("Means over boots of " + r.Job.Judge.Metric)
	p.table(rows)
}

// contract writes what holds, what broke and what changed sides.
func contract(p *page, r bisect.Result) {
	if len(r.Findings) == 0 && len(r.Unrelated) == 0 {
		return
	}
	p.section("Contracts and markers")
	list := func(label string, deep int, entries ...string) {
		if len(entries) > 0 {
			p.prose(fmt.Sprintf("  %-11s", label), strings.Join(entries, "; "), deep)
		}
	}
	list("broken", 2, values(invariants(r, func(f bisect.Finding) []bisect.InvariantPair { return f.Broken }))...)
	list("mended", 1, values(invariants(r, func(f bisect.Finding) []bisect.InvariantPair { return f.Mended }))...)
	if f := decisive(r); f != nil {
		list("steady", 1, steady(*f))
	}
	var moved, unrelated []string
	for _, m := range flipped(r) {
		moved = append(moved, fmt.Sprintf("%s %s -> %s", m.Name, presence(m.Old), presence(m.New)))
	}
	for _, s := range r.Unrelated {
		unrelated = append(unrelated, fmt.Sprintf("%s %s -> %s", s.Name, s.Old, s.New))
	}
	list("flipped", 2, moved...)
	list("unrelated", 1, unrelated...)
}

// values writes invariants by name with what was measured on both sides.
func values(pairs []bisect.InvariantPair) []string {
	var list []string
	for _, i := range pairs {
		list = append(list, fmt.Sprintf("%s %s -> %s", i.Name, workloads.Quantity(i.Old.Value, i.Old.Unit), measured(i.New)))
	}
	return list
}

func presence(m workloads.Marker) string {
	if m.Seen {
		return "seen (" + m.Detail + ")"
	}
	return "absent (" + m.Detail + ")"
}

// steady counts what says the same on both sides of a finding.
func steady(f bisect.Finding) string {
	hold, unmeasured, same := 0, 0, 0
	for _, i := range f.Invariants {
		switch {
		case i.Old.Result == workloads.Pass && i.New.Result == workloads.Pass:
			hold++
		case i.Old.Result == workloads.NotMeasured || i.New.Result == workloads.NotMeasured:
			unmeasured++
		}
	}
	for _, m := range f.Markers {
		if !m.Flipped {
			same++
		}
	}
	text := fmt.Sprintf("%d of %s hold, %d of %s unchanged", hold, count(len(f.Invariants), "invariant"),
		same, count(len(f.Markers), "marker"))
	if unmeasured > 0 {
		text += fmt.Sprintf(", %d not measured", unmeasured)
	}
	return text
}

// invariants joins a list of all findings by name; the first finding speaks.
func invariants(r bisect.Result, of func(bisect.Finding) []bisect.InvariantPair) []bisect.InvariantPair {
	var all []bisect.InvariantPair
	for _, f := range r.Findings {
		for _, i := range of(f) {
			if !slices.ContainsFunc(all, func(a bisect.InvariantPair) bool { return a.Name == i.Name }) {
				all = append(all, i)
			}
		}
	}
	return all
}

func flipped(r bisect.Result) []bisect.MarkerPair {
	var all []bisect.MarkerPair
	for _, f := range r.Findings {
		for _, m := range f.Markers {
			if m.Flipped && !slices.ContainsFunc(all, func(a bisect.MarkerPair) bool { return a.Name == m.Name }) {
				all = append(all, m)
			}
		}
	}
	return all
}

// callbacks writes the lives of the timers of the decisive finding, and where
// timers got lost at the other vCPU counts.
func callbacks(p *page, r bisect.Result) {
	f := decisive(r)
	if f == nil || len(f.Callbacks) == 0 {
		return
	}
	per := " per operation"
	if f.Callbacks[0].OldOps == 0 || f.Callbacks[0].NewOps == 0 {
		per = "" // the workload counts none: bare events
	}
	p.section(fmt.Sprintf("Timers%s, by callback, traced at %d vCPU", per, f.VCPUs))
	rows := [][]string{{"", "", "start", "expire", "cancel", "re-arm", "conserved"}}
	for i, c := range f.Callbacks {
		if i < mostCallbacks {
			rows = append(rows, lives(c.Function, "old", c.Old, c.OldOps, c.OldConserved),
				lives("", "new", c.New, c.NewOps, c.NewConserved))
		}
	}
	p.table(rows)
	if lost := lostElsewhere(r, f); lost != "" {
		p.prose("  ", lost, 1)
	}
}

// lives writes one side of a callback: per operation, or bare counts where
// the workload has no operations.
func lives(function, side string, l workloads.Lives, ops float64, conserved bool) []string {
	row := []string{function, side}
	for _, n := range []uint64{l.Start, l.Expire, l.Cancel, l.Rearm} {
		if ops > 0 {
			row = append(row, fmt.Sprintf("%.3f", float64(n)/ops))
		} else {
			row = append(row, fmt.Sprint(n))
		}
	}
	return append(row, map[bool]string{true: "yes", false: "NO"}[conserved])
}

// lostElsewhere names the callbacks that the table does not show and whose
// timers are not accounted for on the new side alone.
func lostElsewhere(r bisect.Result, shown *bisect.Finding) string {
	var lost []string
	for i := range r.Findings {
		f := &r.Findings[i]
		for k, c := range f.Callbacks {
			if c.OldConserved && !c.NewConserved && (f != shown || k >= mostCallbacks) {
				lost = append(lost, fmt.Sprintf("%s at %d vCPU", c.Function, f.VCPUs))
			}
		}
	}
	if len(lost) == 0 {
		return ""
	}
	return "not conserved on the new side: " + strings.Join(lost, ", ")
}

// conditions writes under which circumstances all this was found.
func conditions(p *page, r bisect.Result) {
	p.section("How it was found")
	entry := func(label, text string) {
		if text != "" {
			p.prose(fmt.Sprintf("  %-13s", label), text, 2)
		}
	}
	entry("accelerator", strings.Trim(r.Accel+": "+r.AccelWhy, ": "))
	entry("workload", fmt.Sprintf("%s (%s), %s of %s a boot", r.Job.Workload.Name, r.Workload,
		count(r.Job.Workload.Runs, "run"), r.Job.Workload.Duration))
	entry("compiler", r.Compiler)
	if r.Commits == 0 {
		entry("old", r.Good.String())
		entry("new", r.Bad.String())
	} else {
		entry("range", fmt.Sprintf("%s (%s) to %s (%s), %s", strings.Join(r.Job.Good, ", "), r.Good.Short(),
			r.Job.Bad, r.Bad.Short(), count(r.Commits, "commit")))
	}
	if r.Guide != nil {
		entry("walked on", fmt.Sprintf("%s %s: %s -> %s", r.Guide.Kind, r.Guide.Name, r.Guide.Old, r.Guide.New))
	}
	entry("checks", changedChecks(r.Job.Judge.Checks))
	entry("effort", fmt.Sprintf("%s built, %d reused; %s, %d voided; %s",
		count(r.Builds, "kernel"), r.Reused, count(r.Boots, "boot"), r.Voided, r.Elapsed.Round(time.Second)))
}

// changedChecks lists what the job turned off or gave another bound.
func changedChecks(o map[string]bisect.Override) string {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		changed = append(changed, name+" "+o[name].String())
	}
	if len(changed) == 0 {
		return ""
	}
	return "changed by the job: " + strings.Join(changed, ", ")
}

// tested lists the commits in the order of the walk, whole.
func tested(p *page, r bisect.Result) {
	if len(r.Tests) == 0 {
		return
	}
	p.section("Commits tested, in order")
	signal := ""
	if r.Guide != nil {
		signal = r.Guide.Name
	}
	for _, t := range r.Tests {
		if t.Signal.Name != signal {
			signal = t.Signal.Name
			p.prose("  ", fmt.Sprintf("on %s %s:", t.Signal.Kind, signal), 1)
		}
		p.prose(fmt.Sprintf("  %-12s  %-7s  ", t.Commit.Short(), t.Verdict), t.Commit.Subject, 1)
		if t.Detail != "" || t.Boots != 1 {
			p.prose(strings.Repeat(" ", 16), strings.TrimSuffix(count(t.Boots, "boot")+": "+t.Detail, ": "), 0)
		}
	}
}
