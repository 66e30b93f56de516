package judge

import (
	"slices"
	"strings"

	"bisectd/bisect"
	"bisectd/workloads"
)

// slower is how many times as late as the other side a kernel has to be under
// emulation before it is called late. What a wait takes there depends on the
// host, of which the stated bounds know nothing; a sleeper on a coarse grid is
// later than its neighbour by a factor of a hundred.
const slower = 5

// calibrated tells whether a check of the probe gets its bound from the other
// side as well: it times something, under TCG, and the job names no bound.
func (j *Judge) calibrated(name string, old, new bisect.Observations) bool {
	emulated := func(o bisect.Observation) bool { return o.Fingerprint.Accel == "tcg" }
	timed := strings.HasSuffix(name, "-late") || strings.HasSuffix(name, "-stall")
	return timed && j.Checks[name].Bound == nil &&
		(slices.ContainsFunc(old, emulated) || slices.ContainsFunc(new, emulated))
}

// calibrate widens the bound of a lateness that fails to a multiple of what
// the other side shows, where that side passes.
func calibrate(i *workloads.Invariant, other workloads.Invariant) {
	if i.Result != workloads.Fail || other.Result != workloads.Pass {
		return
	}
	i.Bound = max(i.Bound, slower*other.Value)
	if i.Value <= i.Bound {
		i.Result = workloads.Pass
	}
}
