package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"bisectd/bisect"
	"bisectd/workloads"
	"bisectd/workloads/hrtimer"
)

// fingerprints holds the conditions of every boot to a law.
func fingerprints(bad func(f bisect.Fingerprint, vcpus int, bound float64) string) check {
	return func(_ *Judge, c Case, bound float64) string {
		for _, o := range c.New {
			if why := bad(o.Fingerprint, c.VCPUs, bound); why != "" {
				return why
			}
		}
		return ""
	}
}

// clocksourceBad names the clocksource unless a guest's timers are exact under
// it and it is cheap to read (tsc-early is tsc before its refinement).
// Refined-jiffies has tick resolution, hpet and acpi_pm leave the guest on
// every reading.
func clocksourceBad(f bisect.Fingerprint, _ int, _ float64) string {
	if slices.Contains([]string{"tsc", "tsc-early", "kvm-clock", "arch_sys_counter"}, f.Clocksource) {
		return ""
	}
	return fmt.Sprintf("the guest's clocksource is %q: it lost the TSC, and its timers are coarse or slow to read",
		f.Clocksource)
}

func resolutionCoarse(f bisect.Fingerprint, _ int, bound float64) string {
	if f.HighRes && f.Resolution <= time.Duration(bound) {
		return ""
	}
	return fmt.Sprintf("the guest's timers are not in high-resolution mode (resolution %v)", f.Resolution)
}

func cpusMissing(f bisect.Fingerprint, vcpus int, _ float64) string {
	if f.CPUs == vcpus {
		return ""
	}
	return fmt.Sprintf("%d vCPUs are online, %d were asked for", f.CPUs, vcpus)
}

func timeStolen(f bisect.Fingerprint, _ int, bound float64) string {
	if f.Steal <= bound {
		return ""
	}
	return fmt.Sprintf("the host took %.1f %% of the guest's time", 100*f.Steal)
}

func hostBusy(f bisect.Fingerprint, _ int, bound float64) string {
	if f.Waited <= bound {
		return ""
	}
	return fmt.Sprintf("a vCPU waited for a processor of the host for %.1f %% of the time", 100*f.Waited)
}

func clockOff(f bisect.Fingerprint, _ int, bound float64) string {
	if math.Abs(f.Drift) <= bound {
		return ""
	}
	return fmt.Sprintf("the guest's clock runs %+.2f %% off the host's", 100*f.Drift)
}

// traces holds every traced boot to a law.
func traces(bad func(o bisect.Observation, bound float64) string) check {
	return func(_ *Judge, c Case, bound float64) string {
		for _, o := range c.New {
			if o.Tally == nil {
				continue
			}
			if why := bad(o, bound); why != "" {
				return why
			}
		}
		return ""
	}
}

func traceLossy(o bisect.Observation, _ float64) string {
	if o.Tally.Dropped == 0 {
		return ""
	}
	return fmt.Sprintf("the trace lost %d entries", o.Tally.Dropped)
}

// missedAtEnds is how many signals may be on their way when a trace begins.
const missedAtEnds = 8

func signalsUnseen(o bisect.Observation, bound float64) string {
	if len(o.Samples) == 0 {
		return ""
	}
	signals, expiries := o.Samples[0].Signals, float64(o.Tally.Callbacks["posix_timer_fn"].Expire)
	if expiries >= signals*(1-bound)-missedAtEnds {
		return ""
	}
	return fmt.Sprintf("the trace shows %.0f expiries of posix_timer_fn for %.0f timer signals received: "+
		"it has lost or filtered events", expiries, signals)
}

// programsDiffer compares what the workload's program says of itself.
func programsDiffer(_ *Judge, c Case, _ float64) string {
	versions := func(obs bisect.Observations) []string {
		var all []string
		for _, o := range obs {
			for _, s := range o.Samples {
				all = append(all, fmt.Sprintf("%q", s.Version))
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	before, after := versions(c.Old), versions(c.New)
	if len(before) == 0 || len(after) == 0 || slices.Equal(before, after) && len(after) == 1 {
		return ""
	}
	return fmt.Sprintf("not every boot ran the same program: %s before and %s after",
		strings.Join(before, ", "), strings.Join(after, ", "))
}

func nothingMeasured(_ *Judge, c Case, _ float64) string {
	for _, o := range slices.Concat(c.Old, c.New) {
		if o.Profile != bisect.MetricBoot || o.Ending != bisect.Completed {
			continue
		}
		empty := func(s workloads.Sample) bool { return len(s.Metrics) == 0 }
		if len(o.Samples) == 0 || slices.ContainsFunc(o.Samples, empty) {
			return fmt.Sprintf("boot %d of %s completed without a number from the workload", o.Ordinal, o.Commit)
		}
	}
	return ""
}

// partsMissing adds up what a workload reports of one timer: ticks are signals,
// which stress-ng calls operations, and overruns.
func partsMissing(_ *Judge, c Case, bound float64) string {
	for _, o := range slices.Concat(c.Old, c.New) {
		for _, s := range o.Samples {
			signals, ok := s.Metric("signals_per_s")
			if !ok {
				signals, ok = s.Metric("bogo_ops_per_s")
			}
			overruns, also := s.Metric("overruns_per_s")
			total, all := s.Metric("ticks_per_s")
			sum := signals.Value + overruns.Value
			if ok && also && all && math.Abs(total.Value-sum) > bound*total.Value {
				return fmt.Sprintf("the workload's figures do not add up: %s ticks, but %s signals and overruns",
					workloads.Quantity(total.Value, "/s"), workloads.Quantity(sum, "/s"))
			}
		}
	}
	return ""
}

// timersLost names the first callback of users with timers that no trace
// accounts for.
func timersLost(j *Judge, c Case, _ float64) string {
	tally, _ := j.traced(c.New)
	if tally == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(tally.Callbacks)) {
		if why := lost(name, tally.Callbacks[name]); why != "" && !conserved(c.New, name) {
			return why
		}
	}
	return ""
}

// lost says how many of a callback's timers have no end, or nothing where all
// of them have one or the kernel started them for itself.
func lost(function string, l workloads.Lives) string {
	if l.Start <= l.Expire+l.Cancel+l.Rearm || !hrtimer.OfUsers(function) {
		return ""
	}
	return fmt.Sprintf("timers of %s get lost: %d started, %d expired, %d cancelled, %d re-armed",
		function, l.Start, l.Expire, l.Cancel, l.Rearm)
}

// broken holds a kernel to an invariant of the probe.
func broken(name string) check {
	return func(j *Judge, c Case, _ float64) string {
		if p := j.invariantPair(name, c.Old, c.New); p.New.Result == workloads.Fail {
			return name + " " + describeInvariant(p.New)
		}
		return ""
	}
}

// flipped compares a marker of the probe.
func flipped(name string) check {
	return func(_ *Judge, c Case, _ float64) string {
		if p := markerPair(name, c.Old, c.New); p.Flipped {
			return fmt.Sprintf("%s %s -> %s", name, describeMarker(p.Old), describeMarker(p.New))
		}
		return ""
	}
}

func settingsDiffer(j *Judge, c Case, _ float64) string {
	return strings.Join(j.settingsMoved(c.Old, c.New), "; ")
}

func ticksFell(_ *Judge, c Case, bound float64) string {
	old, new := workOf(c.Old).ticks, workOf(c.New).ticks
	if !(new < old*(1-bound)) { // NaN where the workload counts no overruns
		return ""
	}
	return accounted(old, new)
}

func mixDiffers(j *Judge, c Case, _ float64) string {
	return strings.Join(j.mixChanges(j.callbackPairs(c.Old, c.New), workOf(c.Old), workOf(c.New), true), "; ")
}

func costDiffers(_ *Judge, c Case, bound float64) string {
	return dearer(workOf(c.Old), workOf(c.New), bound)
}
