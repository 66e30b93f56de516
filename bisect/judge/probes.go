package judge

import (
	"fmt"
	"slices"

	"bisectd/bisect"
	"bisectd/workloads"
)

// ruled returns the observations with what the job says about the probe's
// checks applied: one that is off was not measured, one with another bound is
// held against that.
func (j *Judge) ruled(obs bisect.Observations) bisect.Observations {
	if len(j.Checks) == 0 {
		return obs
	}
	out := slices.Clone(obs)
	for i := range out {
		out[i].Probe.Invariants = slices.Clone(out[i].Probe.Invariants)
		for k := range out[i].Probe.Invariants {
			v := &out[i].Probe.Invariants[k]
			switch {
			case j.Checks.off(v.Name):
				v.Result, v.Detail = workloads.NotMeasured, "turned off by the job"
			case measured(*v) && j.Checks[v.Name].Bound != nil:
				v.Bound, v.Result = *j.Checks[v.Name].Bound, workloads.Pass
				if v.Value > v.Bound {
					v.Result = workloads.Fail
				}
			}
		}
		out[i].Probe.Markers = slices.DeleteFunc(slices.Clone(out[i].Probe.Markers),
			func(m workloads.Marker) bool { return j.Checks.off(m.Name) })
	}
	return out
}

// probed returns the probe records of the boots that ran the probe.
func probed(obs bisect.Observations) []workloads.ProbeRecord {
	var records []workloads.ProbeRecord
	for _, o := range obs {
		if o.Ending == bisect.Completed && o.Profile != bisect.MetricBoot {
			records = append(records, o.Probe)
		}
	}
	return records
}

// invariant returns a check's record over all boots. Boots that disagree say
// something about the host or about luck, not about the kernel: the check
// then counts as not measured.
func invariant(obs bisect.Observations, name string) (workloads.Invariant, bool) {
	var worst workloads.Invariant
	count := map[workloads.Result]int{}
	for _, r := range probed(obs) {
		for _, i := range r.Invariants {
			if i.Name != name {
				continue
			}
			if len(count) == 0 || rank(i.Result) > rank(worst.Result) {
				worst = i
			}
			count[i.Result]++
		}
	}
	if failed, passed := count[workloads.Fail], count[workloads.Pass]; failed > 0 && passed > 0 {
		worst.Result = workloads.NotMeasured
		worst.Detail = fmt.Sprintf("failed in %d of %d boots: %s", failed, failed+passed, worst.Detail)
	}
	return worst, len(count) > 0
}

func rank(r workloads.Result) int {
	switch r {
	case workloads.Fail:
		return 2
	case workloads.Pass:
		return 1
	default:
		return 0
	}
}

// marker returns a marker over all boots. Boots that disagree leave it
// unclear.
func marker(obs bisect.Observations, name string) (workloads.Marker, bool) {
	var m workloads.Marker
	found := false
	for _, r := range probed(obs) {
		for _, next := range r.Markers {
			if next.Name != name || !next.Measured {
				continue
			}
			if found && next.Seen != m.Seen {
				next.Clear = false
			}
			m, found = next, true
		}
	}
	return m, found
}

// invariantPairs joins the invariants of both sides by name, in the probe's
// order. A check that one side lacks is not measured there.
func (j *Judge) invariantPairs(old, new bisect.Observations) []bisect.InvariantPair {
	var pairs []bisect.InvariantPair
	seen := map[string]bool{}
	for _, r := range append(probed(old), probed(new)...) {
		for _, i := range r.Invariants {
			if !seen[i.Name] {
				seen[i.Name] = true
				pairs = append(pairs, j.invariantPair(i.Name, old, new))
			}
		}
	}
	return pairs
}

func (j *Judge) invariantPair(name string, old, new bisect.Observations) bisect.InvariantPair {
	p := bisect.InvariantPair{Name: name, Old: orUnmeasured(old, name), New: orUnmeasured(new, name)}
	if j.calibrated(name, old, new) {
		calibrate(&p.Old, p.New)
		calibrate(&p.New, p.Old)
	}
	return p
}

func orUnmeasured(obs bisect.Observations, name string) workloads.Invariant {
	if i, ok := invariant(obs, name); ok {
		return i
	}
	return workloads.Invariant{Name: name, Result: workloads.NotMeasured, Detail: "not reported"}
}

// markerPairs joins the markers of both sides by name, in the probe's order.
func markerPairs(old, new bisect.Observations) []bisect.MarkerPair {
	var pairs []bisect.MarkerPair
	seen := map[string]bool{}
	for _, r := range append(probed(old), probed(new)...) {
		for _, m := range r.Markers {
			if seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			pairs = append(pairs, markerPair(m.Name, old, new))
		}
	}
	return pairs
}

func markerPair(name string, old, new bisect.Observations) bisect.MarkerPair {
	before, was := marker(old, name)
	after, is := marker(new, name)
	before.Name, after.Name = name, name
	return bisect.MarkerPair{Name: name, Old: before, New: after,
		Flipped: was && is && before.Clear && after.Clear && before.Seen != after.Seen}
}
