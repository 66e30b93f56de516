package judge

import (
	"fmt"
	"math"
	"slices"
	"time"

	"bisectd/bisect"
)

// Bounds of the fingerprint gate. A boot outside of them was measured under
// conditions that void it; no kernel is judged by it.
const (
	// maxSteal is the share of time the host may take from the guest.
	maxSteal = 0.01
	// maxDrift is by how much the guest's clock may differ in rate from the
	// host's. A guest that mis-calibrated its clock is off by far more.
	maxDrift = 0.005
	// maxResolution is what clock_getres(2) reports in high-resolution mode.
	maxResolution = time.Nanosecond
)

// Gate returns why a boot has to be thrown away, or nothing. want is the
// number of vCPUs that the job asked for.
func Gate(f bisect.Fingerprint, want int) string {
	switch {
	case !reliable(f.Clocksource):
		return fmt.Sprintf("the guest's clocksource is %q: it lost the TSC, and its timers are coarse or slow to read",
			f.Clocksource)
	case !f.HighRes || f.Resolution > maxResolution:
		return fmt.Sprintf("the guest's timers are not in high-resolution mode (resolution %v)", f.Resolution)
	case f.CPUs != want:
		return fmt.Sprintf("%d vCPUs are online, %d were asked for", f.CPUs, want)
	case f.Steal > maxSteal:
		return fmt.Sprintf("the host took %.1f %% of the guest's time", 100*f.Steal)
	case math.Abs(f.Drift) > maxDrift:
		return fmt.Sprintf("the guest's clock runs %+.2f %% off the host's", 100*f.Drift)
	}
	return ""
}

// reliable names the clocksources under which a guest's timers are exact and
// cheap to read (tsc-early is tsc before its refinement). Refined-jiffies has tick resolution, hpet and acpi_pm leave
// the guest on every reading.
func reliable(clocksource string) bool {
	return slices.Contains([]string{"tsc", "tsc-early", "kvm-clock", "arch_sys_counter"}, clocksource)
}
