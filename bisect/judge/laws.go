package judge

import (
	"fmt"
	"slices"
	"strings"

	"bisectd/bisect"
	"bisectd/blame"
	"bisectd/workloads/probes"
)

// Domain says what a law is about and so what follows from breaking it.
type Domain string

// The domains.
const (
	Conditions Domain = "conditions" // of a measurement: the boot is void
	Instrument Domain = "instrument" // the trace is thrown away, never the kernel
	Promise    Domain = "promise"    // newly broken: a regression
	Marker     Domain = "marker"     // POSIX leaves it open: a flip is a change of behaviour
	Comparison Domain = "comparison" // of two kernels: what a number counts
)

// Law is something that observations are held against.
type Law struct {
	ID      string  // V0 to V4 are about measurements, K1 to K12 about kernels
	Name    string  // of the check, in reports and under judge.checks of a job
	Domain  Domain  //
	Formula string  // in the letters of docs/semantics.md
	Bound   float64 // tolerance, in Unit; 0 with an empty unit where there is nothing to tolerate
	Unit    string
	Source  string // where law and bound come from
	Meaning string // one sentence for people
}

// Names of laws that package judge checks itself. The probe's are those of
// package probes.
const (
	lawInstrument  = "trace-complete"
	lawSignals     = "signals-have-expiries"
	lawIdentity    = "workload-identity"
	lawClocksource = "clocksource"
	lawHighRes     = "high-resolution"
	lawCPUs        = "cpus-online"
	lawSteal       = "steal"
	lawWait        = "host-wait"
	lawSettings    = "settings"
	lawDrift       = "clock-drift"
	lawConserved   = "timers-conserved"
	lawAccounting  = "tick-accounting"
	lawMix         = "work-per-operation"
	lawEfficiency  = "efficiency"
)

// Bounds of the laws that are not the probe's.
const (
	// maxSteal is the share of time the host may take from the guest.
	maxSteal = 0.01
	// maxWait is the share of time for which a vCPU may wait for the host's
	// processor. Measured on two cores with stress-ng's timer at 20 kHz: below
	// 1 % on a quiet host, 5 to 27 % beside another guest (up to 20 % fewer
	// operations), 24 to 50 % beside one busy loop (half of the operations),
	// 39 to 62 % beside two.
	maxWait = 0.20
	// maxDrift is by how much the guest's clock may differ in rate from the
	// host's. A guest that mis-calibrated its clock is off by far more.
	maxDrift = 0.005
	// sameMix is by how much an event count per operation may differ while
	// the operation is still called the same work.
	sameMix = 0.20
	// sameCost is by how much the operations of a CPU second may differ while
	// an operation is still said to cost the same.
	sameCost = 0.05
	// missedExpiries is the share of delivered signals for which a trace may
	// have no expiry: those on their way when it begins and ends.
	missedExpiries = 0.01
)

// Laws returns all laws, in the order of their ids.
func Laws() []Law {
	return slices.Concat(conditions(), promises(), markers(), comparisons())
}

func conditions() []Law {
	return []Law{
		{"V0", lawInstrument, Instrument, "Dropped = 0", 0, "", "ftrace hist triggers: Totals, Dropped",
			"The trace has every event."},
		{"V0", lawSignals, Instrument, "X + E >= D", missedExpiries, "of the signals", "a timer's signal needs an expiry",
			"The trace shows at least one expiry for each timer signal that the workload received."},
		{"V1", lawIdentity, Conditions, "version(old) = version(new)", 0, "",
			"stress-ng's timer handler re-arms up to 0.19.03 and not from 0.19.04 on",
			"The same program ran on both sides."},
		{"V3", lawClocksource, Conditions, "clocksource in {tsc, tsc-early, kvm-clock, arch_sys_counter}", 0, "",
			"on refined-jiffies timers have the resolution of the tick",
			"The guest kept a fine and cheap clock."},
		{"V3", lawHighRes, Conditions, "clock_getres = 1 ns and hres_active", 1, "ns", "clock_getres(2)",
			"The guest's timers were in high-resolution mode."},
		{"V3", lawCPUs, Conditions, "online = asked for", 0, "", "a missing CPU changes every rate",
			"Every vCPU came up."},
		{"V3", lawSteal, Conditions, "steal / (time x CPUs)", maxSteal, "of the time", "proc_stat(5)",
			"The host took no time from the guest, as the guest sees it."},
		{"V3", lawWait, Conditions, "run delay / time, of the vCPU that waited longest", maxWait, "of the time",
			"/proc/PID/task/TID/schedstat of QEMU's vCPU threads",
			"The host had a processor for every vCPU; under TCG the guest cannot see when it has not."},
		{"V3", lawSettings, Comparison, "settings(old) = settings(new)", 0, "",
			"idle driver and governor, preemption, timer migration, clockevent device",
			"Both kernels ran under the same settings."},
		{"V4", lawDrift, Conditions, "|guest time / host time - 1|", maxDrift, "", "host's CLOCK_MONOTONIC",
			"The guest's clock runs as fast as the host's."},
	}
}

func promises() []Law {
	laws := []Law{{"K1", lawConserved, Promise, "S = X + E + C + R + pending", 0, "",
		"timer:hrtimer_* events; tolerance: docs/semantics.md", "Every timer that was started is accounted for."}}
	add := func(id, name, formula, unit, source string) {
		laws = append(laws, Law{id, name, Promise, formula, 0, unit, source, probes.Meaning(name)})
	}
	for _, name := range interfaces() {
		add("K2", probes.InterfaceLate(name), "median(end - due) <= bound", "ns", "docs/semantics.md, Late")
		add("K2", probes.InterfaceEarly(name), "max(due - end) <= 0", "ns", "POSIX: no wait ends early")
	}
	add("K3", probes.NanosleepGrid, "largest share of wake-ups in a tenth of a period", "fraction",
		"docs/semantics.md, Grid")
	add("K4", probes.PeriodicTicks, "|signals + overruns - periods|", "ticks", "POSIX, timer_getoverrun()")
	add("K6", probes.PendingDelivered, "failed tries", "tries", "POSIX, timer_create()")
	add("K6", probes.OneshotOnce, "failed tries", "tries", "POSIX, timer_settime()")
	add("K6", probes.IgnoredResumes, "time to the first signal", "ns", "POSIX, signal actions")
	return laws
}

func interfaces() []string {
	var names []string
	for name := range probes.Interfaces {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func markers() []Law {
	var laws []Law
	for _, m := range []struct{ id, name string }{{"K5", probes.StaleRearm}, {"K5", probes.StaleRearmPeriodic},
		{"K8", probes.StaleDisarm}, {"K8", probes.StaleDisarmPeriodic}, {"K8", probes.StaleDelete}} {
		laws = append(laws, Law{m.id, m.name, Marker, "signals delivered in 20 tries", 0, "tries",
			"POSIX, timer_settime() and timer_delete(): unspecified; Linux commit 513793bc6ab3", probes.Meaning(m.name)})
	}
	return laws
}

func comparisons() []Law {
	return []Law{
		{"K4", lawAccounting, Comparison, "(operations + overruns) / time", 0, "",
			"timer_getoverrun(2)", "How many expiries the kernel accounts for; told, not judged."},
		{"K10", lawMix, Comparison, "events / operations, new / old", sameMix, "of the larger one",
			"timer events and voluntary context switches", "An operation is the same work as before."},
		{"K11", lawEfficiency, Comparison, "operations / (user + system time), new / old", sameCost, "of the old one",
			"getrusage(2)", "An operation costs as much processor time as before."},
	}
}

// Overrides are a job's changes of laws, by name.
type Overrides map[string]bisect.Override

// Check refuses names that no law has.
func (o Overrides) Check() error {
	var known []string
	for _, l := range Laws() {
		known = append(known, l.Name)
	}
	for name := range o {
		if !slices.Contains(known, name) && probes.Meaning(name) == "" {
			return blame.Errorf(blame.User, "judge.checks: no check is called %q; there are %s", name,
				strings.Join(slices.Compact(known), ", "))
		}
	}
	return nil
}

func (o Overrides) off(name string) bool { return o[name].Off }

// bound returns the job's bound of a law, or its own.
func (o Overrides) bound(name string, own float64) float64 {
	if v := o[name]; v.Bound != nil {
		return *v.Bound
	}
	return own
}

// Describe says what a job has changed, one sentence a check.
func (o Overrides) Describe() []string {
	var said []string
	for name, v := range o {
		if v.Off {
			said = append(said, name+" is turned off by the job")
		} else if v.Bound != nil {
			said = append(said, fmt.Sprintf("%s has the bound %g by the job", name, *v.Bound))
		}
	}
	slices.Sort(said)
	return said
}
