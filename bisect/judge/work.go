package judge

import (
	"fmt"
	"math"

	"bisectd/bisect"
	"bisectd/workloads"
	"bisectd/workloads/hrtimer"
)

// rareEvent is the count per operation below which an event is no part of the
// work.
const rareEvent = 0.05

// work is what the untraced executions of one side say of an operation: the
// medians over boots. A figure that nothing was counted for is NaN.
type work struct {
	switches float64 // voluntary context switches per operation
	cost     float64 // operations per second of processor time
	share    float64 // processor time per second, of all processors
	ticks    float64 // accounted for per second: operations and overruns
}

func workOf(obs bisect.Observations) work {
	var switches, cost, share, ticks []float64
	for _, o := range obs {
		if o.Profile != bisect.MetricBoot || o.Ending != bisect.Completed {
			continue
		}
		for _, s := range o.Samples {
			if cpu := (s.User + s.System).Seconds(); s.Ops > 0 && cpu > 0 {
				cost = append(cost, s.Ops/cpu)
				if wall := s.Wall.Seconds(); wall > 0 {
					share = append(share, cpu/wall)
				}
			}
			if s.Ops > 0 && s.Switches > 0 {
				switches = append(switches, s.Switches/s.Ops)
			}
			if m, ok := s.Metric("ticks_per_s"); ok {
				ticks = append(ticks, m.Value)
			}
		}
	}
	return work{middle(switches), middle(cost), middle(share), middle(ticks)}
}

func middle(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return median(v)
}

// mixChanges lists the events whose count per operation differs: those of the
// traces, and, where the metric became worse, the workload's own context
// switches. Those follow the processor's load as well, so that they excuse
// nothing where more got done.
func (j *Judge) mixChanges(pairs []bisect.CallbackPair, old, new work, worse bool) []string {
	if j.Checks.off(lawMix) {
		return nil
	}
	bound := j.Checks.bound(lawMix, sameMix)
	var changes []string
	compare := func(what string, o, n float64) {
		if max(o, n) > rareEvent && math.Abs(n-o) > bound*max(o, n) {
			changes = append(changes, fmt.Sprintf("%s per op %.2f -> %.2f", what, o, n))
		}
	}
	for _, p := range pairs {
		if p.OldOps <= 0 || p.NewOps <= 0 || !hrtimer.OfUsers(p.Function) {
			continue // the kernel's own timers are no part of an operation
		}
		compare("starts of "+p.Function, float64(p.Old.Start)/p.OldOps, float64(p.New.Start)/p.NewOps)
		compare("expiries of "+p.Function, float64(p.Old.Expire)/p.OldOps, float64(p.New.Expire)/p.NewOps)
		// A kernel without was_armed= cannot tell the two apart.
		compare("cancels and re-arms of "+p.Function, float64(p.Old.Cancel+p.Old.Rearm)/p.OldOps,
			float64(p.New.Cancel+p.New.Rearm)/p.NewOps)
	}
	if worse {
		compare("voluntary context switches", old.switches, new.switches)
	}
	return changes
}

// efficiency says whether an operation costs what it did, or whether the
// workload only got more or less of the processor; nothing where that was not
// measured.
func (j *Judge) efficiency(old, new work) string {
	if j.Checks.off(lawEfficiency) || math.IsNaN(old.cost) || math.IsNaN(new.cost) {
		return ""
	}
	if why := dearer(old, new, j.Checks.bound(lawEfficiency, sameCost)); why != "" {
		return why
	}
	if share := new.share/old.share - 1; math.Abs(share) > sameCost {
		return fmt.Sprintf("an operation costs the same (%+.1f %% operations per second of processor time), but the "+
			"workload had the processor for %.0f %% instead of %.0f %% of the time: capacity, not cost",
			100*(new.cost/old.cost-1), 100*new.share, 100*old.share)
	}
	return ""
}

// dearer says whether an operation costs more or less processor time than
// before, or nothing.
func dearer(old, new work, bound float64) string {
	change := new.cost/old.cost - 1
	if !(math.Abs(change) > bound) { // NaN where it was not measured
		return ""
	}
	return fmt.Sprintf("a second of processor time does %+.1f %% operations: the work itself costs %s", 100*change,
		map[bool]string{true: "less", false: "more"}[change > 0])
}

// accounting says what the kernel accounts for, nothing where the workload does
// not count overruns. It is no promise: a handler that arms its timer anew
// loses the ticks in between, and their number changes with the signals that
// it gets. That of a timer left alone is (probes.PeriodicTicks).
func (j *Judge) accounting(old, new work) []string {
	if j.Checks.off(lawAccounting) || math.IsNaN(old.ticks) || math.IsNaN(new.ticks) {
		return nil
	}
	return []string{accounted(old.ticks, new.ticks)}
}

func accounted(old, new float64) string {
	return fmt.Sprintf("operations and overruns together, which is what the kernel accounts for, go from %s to %s",
		workloads.Quantity(old, "ticks/s"), workloads.Quantity(new, "ticks/s"))
}

// unsound says why a traced run proves nothing, or nothing. An instrument that
// misses events is thrown away; the kernel is not judged by it.
func (j *Judge) unsound(o bisect.Observation) string {
	return j.first(instruments(), Case{New: bisect.Observations{o}})
}
