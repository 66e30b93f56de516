package judge

import (
	"fmt"
	"math"
	"slices"
	"time"

	"bisectd/bisect"
)

// Gate returns why a boot has to be thrown away, or nothing: it was measured
// under conditions that void it, and no kernel is judged by it. want is the
// number of vCPUs that the job asked for.
func (o Overrides) Gate(f bisect.Fingerprint, want int) string {
	for _, v := range []struct {
		law    string
		broken bool
		why    string
	}{
		{lawClocksource, !reliable(f.Clocksource), fmt.Sprintf(
			"the guest's clocksource is %q: it lost the TSC, and its timers are coarse or slow to read", f.Clocksource)},
		{lawHighRes, !f.HighRes || f.Resolution > time.Duration(o.bound(lawHighRes, 1)), fmt.Sprintf(
			"the guest's timers are not in high-resolution mode (resolution %v)", f.Resolution)},
		{lawCPUs, f.CPUs != want, fmt.Sprintf("%d vCPUs are online, %d were asked for", f.CPUs, want)},
		{lawSteal, f.Steal > o.bound(lawSteal, maxSteal), fmt.Sprintf(
			"the host took %.1f %% of the guest's time", 100*f.Steal)},
		{lawWait, f.Waited > o.bound(lawWait, maxWait), fmt.Sprintf(
			"a vCPU waited for a processor of the host for %.1f %% of the time", 100*f.Waited)},
		{lawDrift, math.Abs(f.Drift) > o.bound(lawDrift, maxDrift), fmt.Sprintf(
			"the guest's clock runs %+.2f %% off the host's", 100*f.Drift)},
	} {
		if v.broken && !o.off(v.law) {
			return v.why
		}
	}
	return ""
}

// Busy tells whether a boot is void because the host had other work to do: the
// next one may be sound when that is done.
func (o Overrides) Busy(f bisect.Fingerprint) bool {
	return f.Waited > o.bound(lawWait, maxWait) && !o.off(lawWait)
}

// Gate is that of a job without overrides.
func Gate(f bisect.Fingerprint, want int) string { return Overrides(nil).Gate(f, want) }

// reliable names the clocksources under which a guest's timers are exact and
// cheap to read (tsc-early is tsc before its refinement). Refined-jiffies has
// tick resolution, hpet and acpi_pm leave the guest on every reading.
func reliable(clocksource string) bool {
	return slices.Contains([]string{"tsc", "tsc-early", "kvm-clock", "arch_sys_counter"}, clocksource)
}
