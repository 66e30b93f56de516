package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"bisectd/bisect"
	"bisectd/workloads"
	"bisectd/workloads/hrtimer"
)

// Classify names the change between the two commits of the final pair. The
// order of the questions is the rule: a correct user who is worse off makes a
// regression whatever the numbers do; only where no contract broke can a
// number have changed its meaning, and only where it kept it can better or
// worse be read off it.
func (j *Judge) Classify(e bisect.Evidence) bisect.Finding {
	e.Old, e.New = j.ruled(e.Old), j.ruled(e.New)
	f := bisect.Finding{VCPUs: e.VCPUs, Shift: e.Shift, Invariants: j.invariantPairs(e.Old, e.New),
		Markers: markerPairs(e.Old, e.New), Callbacks: j.callbackPairs(e.Old, e.New)}
	for _, p := range f.Invariants {
		switch {
		case p.Old.Result == workloads.Pass && p.New.Result == workloads.Fail:
			f.Broken = append(f.Broken, p)
		case p.Old.Result == workloads.Fail && p.New.Result == workloads.Pass:
			f.Mended = append(f.Mended, p)
		}
	}
	f.Naive = naive(f)
	f.Class, f.Reasons = j.class(f, e)
	f.Reasons = slices.Concat(f.Reasons, counterfactuals(e), j.Checks.Describe())
	traces := min(count(e.Old, bisect.TraceBoot), count(e.New, bisect.TraceBoot))
	flipped := slices.ContainsFunc(f.Markers, func(m bisect.MarkerPair) bool { return m.Flipped && j.related(m.Name) })
	claims := f.Class == bisect.Regression || f.Class == bisect.Inconclusive ||
		f.Class == bisect.BehaviourChange && !flipped // twenty tries of a marker need no repetition
	f.Repeat = traces < 2 && (claims || len(f.Mended) > 0)
	return f
}

func (j *Judge) class(f bisect.Finding, e bisect.Evidence) (bisect.Class, []string) {
	if s, ok := crash(e.Old, e.New); ok {
		return bisect.Regression, []string{"the new kernel fails where its parent completes: " + s.New}
	}
	if failed := failures(append(slices.Clone(e.Old), e.New...)); len(failed) > 0 {
		return bisect.Inconclusive, []string{fmt.Sprintf("%s ended with %s: %s",
			failed[0].Commit, failed[0].Ending, failed[0].Detail)}
	}
	if why := j.first(numbers(), Case{VCPUs: e.VCPUs, Old: e.Old, New: e.New}); why != "" {
		return bisect.Inconclusive, []string{why}
	}
	if why := j.contractBroken(f); len(why) > 0 {
		return bisect.Regression, why
	}
	worse := f.Shift.Decision == bisect.Moved && !better(f.Shift)
	if why := contractMended(f); len(why) > 0 && worse {
		return bisect.BehaviourChange, append(why, fmt.Sprintf("%s pays for it: %s", j.Metric, percent(f.Shift)))
	} else if len(why) > 0 {
		return bisect.Improvement, why
	}
	switch f.Shift.Decision {
	case bisect.Same:
		return bisect.NotReproduced, []string{fmt.Sprintf("%s does not move (%s)", j.Metric, percent(f.Shift))}
	case bisect.Unclear:
		return bisect.Inconclusive, []string{fmt.Sprintf("whether %s moves is not clear (%s)", j.Metric, percent(f.Shift))}
	}
	if why := j.settingsMoved(e.Old, e.New); len(why) > 0 && !moves(e.Pinned) {
		return bisect.EnvironmentShift, why
	}
	before, after := workOf(e.Old), workOf(e.New)
	if why := j.meaningMoved(f, before, after); len(why) > 0 && moves(e.Honest) && !better(*e.Honest) {
		worse := fmt.Sprintf("users who rely on nothing unspecified are worse off too: %s moves by %s",
			e.Honest.Metric, percent(*e.Honest))
		return bisect.Regression, append([]string{worse}, why...)
	} else if len(why) > 0 {
		return bisect.BehaviourChange, slices.Concat(why, j.accounting(before, after), contractKept(f))
	}
	if why := j.unmeasured(f, e); why != "" {
		return bisect.Inconclusive, []string{fmt.Sprintf("%s moves by %s, but %s", j.Metric, percent(f.Shift), why)}
	}
	if p := e.Padded; p != nil && p.Decision != bisect.Moved {
		return bisect.Layout, []string{fmt.Sprintf("%s moves by %s, but with every function aligned it %s (%s): "+
			"the code is where it is by chance", j.Metric, percent(f.Shift), stays(*p), percent(*p))}
	}
	return j.betterOrWorse(f, j.efficiency(before, after))
}

// betterOrWorse names a shift by its direction, where an operation is the same
// work on both sides. cost says what became of its cost, where that is known.
func (j *Judge) betterOrWorse(f bisect.Finding, cost string) (bisect.Class, []string) {
	direction := fmt.Sprintf("%s moves by %s, %s being better", j.Metric, percent(f.Shift), f.Shift.Better)
	why := []string{direction + ", at the same work per operation"}
	if cost != "" {
		why = append(why, cost)
	}
	if better(f.Shift) {
		return bisect.Improvement, append(why, contractKept(f)...)
	}
	if cost == "" {
		why = []string{direction + ": the same work costs more"}
	}
	return bisect.Regression, why
}

// contractBroken lists what a correct user loses.
func (j *Judge) contractBroken(f bisect.Finding) []string {
	var why []string
	for _, p := range f.Broken {
		why = append(why, fmt.Sprintf("%s held on the parent (%s) and is broken: %s, bound %s", p.Name,
			workloads.Quantity(p.Old.Value, p.Old.Unit), workloads.Quantity(p.New.Value, p.New.Unit),
			workloads.Quantity(p.New.Bound, p.New.Unit)))
	}
	for _, c := range f.Callbacks {
		if !c.OldConserved || c.NewConserved || j.Checks.off(lawConserved) {
			continue
		}
		if gone := lost(c.Function, c.New); gone != "" {
			why = append(why, gone)
		}
	}
	return why
}

// contractMended lists what a correct user gains.
func contractMended(f bisect.Finding) []string {
	var why []string
	for _, p := range f.Mended {
		why = append(why, fmt.Sprintf("%s was broken on the parent (%s) and holds: %s", p.Name,
			workloads.Quantity(p.Old.Value, p.Old.Unit), workloads.Quantity(p.New.Value, p.New.Unit)))
	}
	return why
}

// settingsMoved lists the settings of the run that one side has otherwise than
// the other. One that is not the same in all boots of its side is the doing of
// single boots, not of a commit.
func (j *Judge) settingsMoved(old, new bisect.Observations) []string {
	if j.Checks.off(lawSettings) {
		return nil
	}
	before, after := settings(old), settings(new)
	names := map[string]bool{}
	for _, side := range []map[string]string{before, after} {
		for name := range side {
			names[name] = true
		}
	}
	var why []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := before[name], after[name]; was != is && was != unsettled && is != unsettled {
			why = append(why, fmt.Sprintf("the run's environment differs: %s is %q instead of %q", name, is, was))
		}
	}
	return why
}

// unsettled is a setting that differs between the boots of one side.
const unsettled = "\x00"

// settings returns those of the measured boots of one side.
func settings(obs bisect.Observations) map[string]string {
	var all map[string]string
	for _, o := range obs {
		if o.Profile != bisect.MetricBoot || o.Ending != bisect.Completed {
			continue
		}
		these := map[string]string{}
		for name, value := range o.Fingerprint.Settings {
			if value != "(null)" { // what the kernel prints for an empty list of CPUs
				these[name] = value
			}
		}
		these["clockevent device"] = o.Fingerprint.Clockevent
		if all == nil {
			all = these
			continue
		}
		for _, other := range []map[string]string{these, all} {
			for name := range other {
				if these[name] != all[name] {
					all[name] = unsettled
				}
			}
		}
	}
	return all
}

// unmeasured says which evidence is missing for calling an operation the same
// work on both sides, or nothing.
func (j *Judge) unmeasured(f bisect.Finding, e bisect.Evidence) string {
	for _, m := range f.Markers {
		if j.related(m.Name) && m.Old.Measured && m.New.Measured && (!m.Old.Clear || !m.New.Clear) {
			return m.Name + " is not clear: " + m.Old.Detail + " and " + m.New.Detail
		}
	}
	for _, side := range []bisect.Observations{e.Old, e.New} {
		for _, o := range side {
			if o.Tally == nil {
				continue
			}
			if why := j.unsound(o); why != "" {
				return why
			}
		}
		if tally, ops := j.traced(side); tally == nil || ops <= 0 {
			return "the work of an operation was not measured on both sides"
		}
	}
	return ""
}

func count(obs bisect.Observations, p bisect.Profile) int {
	n := 0
	for _, o := range obs {
		if o.Profile == p {
			n++
		}
	}
	return n
}

// meaningMoved lists why the metric no longer counts what it counted.
func (j *Judge) meaningMoved(f bisect.Finding, old, new work) []string {
	var why []string
	var flips []string
	for _, m := range f.Markers {
		if m.Flipped && j.related(m.Name) {
			flips = append(flips, fmt.Sprintf("%s %s -> %s", m.Name, describeMarker(m.Old), describeMarker(m.New)))
		}
	}
	if len(flips) > 0 {
		why = append(why, "POSIX leaves open what changed here, and the workload depends on it: "+strings.Join(flips, ", "))
	}
	if mix := j.mixChanges(f.Callbacks, old, new, !better(f.Shift)); len(mix) > 0 {
		why = append(why, "an operation no longer is the same work: "+strings.Join(mix, "; "))
	}
	return why
}

// contractKept says what was checked and found whole.
func contractKept(f bisect.Finding) []string {
	var passed, accounted []string
	for _, p := range f.Invariants {
		if p.New.Result == workloads.Pass {
			passed = append(passed, p.Name)
		}
	}
	for _, c := range f.Callbacks {
		if c.NewConserved && c.New.Start > 0 && hrtimer.OfUsers(c.Function) {
			accounted = append(accounted, c.Function)
		}
	}
	var kept []string
	if len(passed) > 0 {
		kept = append(kept, fmt.Sprintf("a correct user loses nothing: %d invariants hold (%s)",
			len(passed), strings.Join(passed, ", ")))
	}
	if len(accounted) > 0 {
		kept = append(kept, "every started timer is accounted for: "+strings.Join(accounted, ", "))
	}
	return kept
}

// callbackPairs joins the traced runs of both sides.
func (j *Judge) callbackPairs(old, new bisect.Observations) []bisect.CallbackPair {
	before, oldOps := j.traced(old)
	after, newOps := j.traced(new)
	if before == nil || after == nil {
		return nil
	}
	names := map[string]bool{}
	for _, t := range []*workloads.Tally{before, after} {
		for name := range t.Callbacks {
			names[name] = true
		}
	}
	var pairs []bisect.CallbackPair
	for name := range names {
		o, n := before.Callbacks[name], after.Callbacks[name]
		pairs = append(pairs, bisect.CallbackPair{Function: name, Old: o, New: n, OldOps: oldOps, NewOps: newOps,
			OldConserved: conserved(old, name), NewConserved: conserved(new, name)})
	}
	slices.SortFunc(pairs, func(a, b bisect.CallbackPair) int {
		if d := int64(b.Old.Start+b.New.Start) - int64(a.Old.Start+a.New.Start); d != 0 {
			return int(max(-1, min(1, d)))
		}
		return strings.Compare(a.Function, b.Function)
	})
	return pairs
}

// conserved tells whether a trace of obs accounts for every timer of a
// callback. One that does is enough: a trace can miss events, not invent them.
func conserved(obs bisect.Observations, name string) bool {
	return slices.ContainsFunc(obs, func(o bisect.Observation) bool {
		return o.Tally != nil && hrtimer.Conserved(o.Tally.Callbacks[name], *o.Tally)
	})
}

// traced returns the tally of the first traced run that is sound, and its
// operations.
func (j *Judge) traced(obs bisect.Observations) (*workloads.Tally, float64) {
	for _, o := range obs {
		if o.Tally != nil && len(o.Samples) > 0 && j.unsound(o) == "" {
			return o.Tally, o.Samples[0].Ops
		}
	}
	return nil, 0
}

// naive is what the totals alone would have claimed: the metric's percentage,
// and the "completion rate" of all timers, which counts a cancelled or
// re-armed timer as lost.
func naive(f bisect.Finding) string {
	claim := "no difference"
	if f.Shift.Decision == bisect.Moved {
		word := "regression"
		if better(f.Shift) {
			word = "improvement"
		}
		claim = fmt.Sprintf("a %.1f %% %s of %s", 100*math.Abs(f.Shift.Effect), word, f.Shift.Metric)
	}
	var start, expire [2]uint64
	for _, c := range f.Callbacks {
		start[0], start[1] = start[0]+c.Old.Start, start[1]+c.New.Start
		expire[0], expire[1] = expire[0]+c.Old.Expire, expire[1]+c.New.Expire
	}
	if start[0] == 0 || start[1] == 0 {
		return claim
	}
	return claim + fmt.Sprintf("; expiries per start of all timers %.2f -> %.2f",
		float64(expire[0])/float64(start[0]), float64(expire[1])/float64(start[1]))
}

func stays(s bisect.Shift) string {
	if s.Decision == bisect.Same {
		return "does not"
	}
	return "is not seen to"
}

func moves(s *bisect.Shift) bool { return s != nil && s.Decision == bisect.Moved }

// counterfactuals says what the metric did with one thing made otherwise.
func counterfactuals(e bisect.Evidence) []string {
	var said []string
	for _, c := range []struct {
		how   string
		shift *bisect.Shift
	}{
		{"with every function aligned", e.Padded},
		{"with the settings of the environment made equal", e.Pinned},
		{"in the workload's counterpart, which relies on nothing unspecified,", e.Honest},
		{"with the commit reverted at the bad end", e.Reverted},
	} {
		if c.shift == nil || c.shift == e.Padded && !moves(e.Padded) {
			continue // that is what the class layout says
		}
		verb := map[bisect.Change]string{bisect.Moved: "moves", bisect.Same: "does not move",
			bisect.Unclear: "may move or not"}[c.shift.Decision]
		said = append(said, fmt.Sprintf("%s %s %s (%s)", c.how, c.shift.Metric, verb, percent(*c.shift)))
	}
	return said
}

func better(s bisect.Shift) bool { return (s.Effect > 0) == (s.Better == workloads.Higher) }

func percent(s bisect.Shift) string {
	return fmt.Sprintf("%+.1f %%, 95 %% interval %+.1f to %+.1f", 100*s.Effect, 100*s.Low, 100*s.High)
}
