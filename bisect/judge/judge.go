// Package judge turns observations into decisions: whether a boot counts,
// where a commit stands, whether a metric moved, and what kind of change a
// commit made. It sees observations only and boots nothing, so that an old
// run can be judged again under new rules.
package judge

import (
	"fmt"
	"slices"
	"strings"

	"bisectd/bisect"
	"bisectd/workloads"
)

// Judge holds the rules of one job.
type Judge struct {
	Metric    string
	MinEffect float64 // smaller changes of the metric are none
	Error     float64 // accepted chance of a wrong answer over the whole walk
	Steps     int     // tests that the walk is expected to make: they share Error
	Checks    Overrides
	Exercises []string // prefixes of the probe's checks that the workload is about
}

var _ bisect.Judge = (*Judge)(nil)

// Signals lists what separates the ends, cheapest first: crash, invariant,
// marker, metric.
func (j *Judge) Signals(old, new bisect.Observations) []bisect.Signal {
	old, new = j.ruled(old), j.ruled(new)
	if s, ok := crash(old, new); ok {
		return []bisect.Signal{s}
	}
	var signals []bisect.Signal
	for _, p := range j.invariantPairs(old, new) {
		if p.Old.Result != p.New.Result && measured(p.Old) && measured(p.New) {
			signals = append(signals, bisect.Signal{Kind: bisect.InvariantSignal, Name: p.Name, Profile: bisect.ProbeBoot,
				Old: describeInvariant(p.Old), New: describeInvariant(p.New), Related: j.related(p.Name)})
		}
	}
	for _, p := range markerPairs(old, new) {
		if p.Flipped {
			signals = append(signals, bisect.Signal{Kind: bisect.MarkerSignal, Name: p.Name, Profile: bisect.ProbeBoot,
				Old: describeMarker(p.Old), New: describeMarker(p.New), Related: j.related(p.Name)})
		}
	}
	if shift := j.Shift(old, new); shift.Decision == bisect.Moved {
		signals = append(signals, bisect.Signal{Kind: bisect.MetricSignal, Name: j.Metric, Profile: bisect.MetricBoot,
			Old: workloads.Quantity(shift.Old.Mean, shift.Unit), New: workloads.Quantity(shift.New.Mean, shift.Unit),
			Related: true})
	}
	return signals
}

func (j *Judge) related(check string) bool {
	return slices.ContainsFunc(j.Exercises, func(prefix string) bool { return strings.HasPrefix(check, prefix) })
}

// Place says on which side of s a commit stands.
func (j *Judge) Place(s bisect.Signal, old, new, commit bisect.Observations) bisect.Placement {
	if s.Kind == bisect.CrashSignal {
		return j.placeCrash(new, commit)
	}
	if failed := failures(commit); len(failed) > 0 {
		return bisect.Placement{Verdict: bisect.Skip, Detail: ending(failed[0])}
	}
	old, commit = j.ruled(old), j.ruled(commit)
	switch s.Kind {
	case bisect.InvariantSignal:
		return j.placeInvariant(s.Name, old, commit)
	case bisect.MarkerSignal:
		return placeMarker(s.Name, old, commit)
	default:
		return j.placeMetric(old, new, commit)
	}
}

// Hopeless says why no walk on s can be afforded, or nothing.
func (j *Judge) Hopeless(s bisect.Signal, old, new bisect.Observations) string {
	if s.Kind != bisect.MetricSignal {
		return ""
	}
	return j.hopeless(old, new)
}

// Anchored tells whether the ends are known well enough to walk on s.
func (j *Judge) Anchored(s bisect.Signal, old, new bisect.Observations) bool {
	switch s.Kind {
	case bisect.CrashSignal:
		return crashKnown(new)
	case bisect.MetricSignal:
		return j.anchored(old, new)
	default:
		return true
	}
}

func (j *Judge) placeInvariant(name string, old, commit bisect.Observations) bisect.Placement {
	want, got := orUnmeasured(old, name), orUnmeasured(commit, name)
	if j.calibrated(name, old, commit) {
		calibrate(&got, want)
	}
	switch {
	case !measured(got):
		return bisect.Placement{Verdict: bisect.Skip, Detail: name + " was not measured"}
	case got.Result == want.Result:
		return bisect.Placement{Verdict: bisect.Old, Detail: name + " " + describeInvariant(got)}
	default:
		return bisect.Placement{Verdict: bisect.New, Detail: name + " " + describeInvariant(got)}
	}
}

func placeMarker(name string, old, commit bisect.Observations) bisect.Placement {
	want, _ := marker(old, name)
	got, ok := marker(commit, name)
	switch {
	case !ok || !got.Measured:
		return bisect.Placement{Verdict: bisect.Skip, Detail: name + " was not measured"}
	case !got.Clear:
		return bisect.Placement{Verdict: bisect.Unknown, Detail: name + " " + describeMarker(got)}
	case got.Seen == want.Seen:
		return bisect.Placement{Verdict: bisect.Old, Detail: name + " " + describeMarker(got)}
	default:
		return bisect.Placement{Verdict: bisect.New, Detail: name + " " + describeMarker(got)}
	}
}

func measured(i workloads.Invariant) bool {
	return i.Result == workloads.Pass || i.Result == workloads.Fail
}

// describeInvariant and describeMarker say what was seen, without the name.
func describeInvariant(i workloads.Invariant) string {
	if !measured(i) {
		return fmt.Sprintf("%s (%s)", i.Result, i.Detail)
	}
	return fmt.Sprintf("%s: %s, bound %s", i.Result,
		workloads.Quantity(i.Value, i.Unit), workloads.Quantity(i.Bound, i.Unit))
}

func describeMarker(m workloads.Marker) string {
	if m.Seen {
		return "seen (" + m.Detail + ")"
	}
	return "absent (" + m.Detail + ")"
}
