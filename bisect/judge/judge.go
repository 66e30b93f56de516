// Package judge turns observations into decisions: whether a boot counts,
// where a commit stands, whether a metric moved, and what kind of change a
// commit made. It sees observations only and boots nothing, so that an old
// run can be judged again under new rules.
package judge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bisectd/bisect"
	"bisectd/workloads"
)

// Judge holds the rules of one job.
type Judge struct {
	Metric    string
	MinEffect float64  // smaller changes of the metric are none
	Error     float64  // accepted chance of a wrong answer over the whole walk
	Steps     int      // tests that the walk is expected to make: they share Error
	Exercises []string // prefixes of the probe's checks that the workload is about
}

var _ bisect.Judge = (*Judge)(nil)

// Signals lists what separates the ends, cheapest first: crash, invariant,
// marker, metric.
func (j *Judge) Signals(old, new bisect.Observations) []bisect.Signal {
	if s, ok := crash(old, new); ok {
		return []bisect.Signal{s}
	}
	var signals []bisect.Signal
	for _, p := range invariantPairs(old, new) {
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

// crash finds a bad end that fails where the good one completes. One failure
// could be the host's doing: every boot must have ended alike.
func crash(old, new bisect.Observations) (bisect.Signal, bool) {
	failed := failures(new)
	if len(failures(old)) > 0 || len(failed) == 0 {
		return bisect.Signal{}, false
	}
	first := failed[0]
	for _, o := range new {
		if o.Profile == first.Profile && o.Ending != first.Ending {
			return bisect.Signal{}, false
		}
	}
	return bisect.Signal{Kind: bisect.CrashSignal, Name: string(first.Ending), Profile: first.Profile,
		Old: string(bisect.Completed), New: string(first.Ending) + ": " + first.Detail, Related: true}, true
}

func failures(obs bisect.Observations) bisect.Observations {
	return slices.DeleteFunc(slices.Clone(obs), func(o bisect.Observation) bool { return o.Ending == bisect.Completed })
}

// crashBoots is how many boots a commit has to survive to be without a crash
// that the bad end shows in every boot.
const crashBoots = 3

// variable matches what differs between two reports of one crash: addresses,
// offsets, process ids, time stamps.
var variable = regexp.MustCompile(`0x[0-9a-f]+|[0-9a-f]{8,}|\d+`)

// sameCrash tells whether a failure is the one of the bad end. Only a panic
// says what it is; hangs and silent deaths are all alike.
func sameCrash(f bisect.Observation, new bisect.Observations) bool {
	for _, sought := range failures(new) {
		if strings.Contains(sought.Detail, "panic") || strings.Contains(f.Detail, "panic") {
			return variable.ReplaceAllString(sought.Detail, "N") == variable.ReplaceAllString(f.Detail, "N")
		}
	}
	return true
}

// Place says on which side of s a commit stands.
func (j *Judge) Place(s bisect.Signal, old, new, commit bisect.Observations) (bisect.Verdict, string) {
	if failed := failures(commit); len(failed) > 0 {
		f := failed[0]
		detail := fmt.Sprintf("%s: %s", f.Ending, f.Detail)
		if s.Kind == bisect.CrashSignal && string(f.Ending) == s.Name && sameCrash(f, new) {
			return bisect.New, detail
		}
		return bisect.Skip, detail
	}
	switch s.Kind {
	case bisect.CrashSignal:
		// A crash that does not come every time must not pass as none.
		if len(commit) < crashBoots {
			return bisect.Unknown, string(bisect.Completed)
		}
		return bisect.Old, fmt.Sprintf("%s in %d boots", bisect.Completed, len(commit))
	case bisect.InvariantSignal:
		return placeInvariant(s.Name, old, commit)
	case bisect.MarkerSignal:
		return placeMarker(s.Name, old, commit)
	default:
		return j.placeMetric(old, new, commit)
	}
}

func placeInvariant(name string, old, commit bisect.Observations) (bisect.Verdict, string) {
	want, _ := invariant(old, name)
	got, ok := invariant(commit, name)
	switch {
	case !ok || !measured(got):
		return bisect.Skip, name + " was not measured"
	case got.Result == want.Result:
		return bisect.Old, name + " " + describeInvariant(got)
	default:
		return bisect.New, name + " " + describeInvariant(got)
	}
}

func placeMarker(name string, old, commit bisect.Observations) (bisect.Verdict, string) {
	want, _ := marker(old, name)
	got, ok := marker(commit, name)
	switch {
	case !ok || !got.Measured:
		return bisect.Skip, name + " was not measured"
	case !got.Clear:
		return bisect.Unknown, name + " " + describeMarker(got)
	case got.Seen == want.Seen:
		return bisect.Old, name + " " + describeMarker(got)
	default:
		return bisect.New, name + " " + describeMarker(got)
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
