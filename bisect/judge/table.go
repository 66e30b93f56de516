package judge

import (
	"maps"
	"slices"

	"bisectd/workloads/probes"
)

// Names of laws that package judge checks itself. The probe's are those of
// package probes.
const (
	lawInstrument  = "trace-complete"
	lawSignals     = "signals-have-expiries"
	lawIdentity    = "workload-identity"
	lawHealth      = "workload-health"
	lawParts       = "parts-add-up"
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
	// unaccounted is by how much a total may differ from the sum of its parts:
	// stress-ng rounds, and averages times over its instances.
	unaccounted = 0.03
	// fewerTicks is by how much the ticks accounted for may fall without a
	// word: saturated, they differ by this much from boot to boot.
	fewerTicks = 0.03
)

// Laws returns all laws, those of measurements first.
func Laws() []Law {
	return slices.Concat(instruments(), conditions(), numbers(), promises(), markers(), comparisons())
}

func instruments() []Law {
	return []Law{
		{"V0", lawInstrument, Instrument, "Dropped = 0", 0, "", "ftrace hist triggers: Totals, Dropped",
			"The trace has every event.", traces(traceLossy)},
		{"V0", lawSignals, Instrument, "X + E >= D", missedExpiries, "of the signals", "a timer's signal needs an expiry",
			"The trace shows at least one expiry for each timer signal that the workload received.", traces(signalsUnseen)},
	}
}

func conditions() []Law {
	return []Law{
		{"V3", lawClocksource, Conditions, "clocksource in {tsc, tsc-early, kvm-clock, arch_sys_counter}", 0, "",
			"on refined-jiffies timers have the resolution of the tick",
			"The guest kept a fine and cheap clock.", fingerprints(clocksourceBad)},
		{"V3", lawHighRes, Conditions, "clock_getres = 1 ns and hres_active", 1, "ns", "clock_getres(2)",
			"The guest's timers were in high-resolution mode.", fingerprints(resolutionCoarse)},
		{"V3", lawCPUs, Conditions, "online = asked for", 0, "", "a missing CPU changes every rate",
			"Every vCPU came up.", fingerprints(cpusMissing)},
		{"V3", lawSteal, Conditions, "steal / (time x CPUs)", maxSteal, "of the time", "proc_stat(5)",
			"The host took no time from the guest, as the guest sees it.", fingerprints(timeStolen)},
		{"V3", lawWait, Conditions, "run delay / time, of the vCPU that waited longest", maxWait, "of the time",
			"/proc/PID/task/TID/schedstat of QEMU's vCPU threads",
			"The host had a processor for every vCPU; under TCG the guest cannot see when it has not.",
			fingerprints(hostBusy)},
		{"V4", lawDrift, Conditions, "|guest time / host time - 1|", maxDrift, "of the host's time", "host's CLOCK_MONOTONIC",
			"The guest's clock runs as fast as the host's.", fingerprints(clockOff)},
	}
}

func numbers() []Law {
	return []Law{
		{"V1", lawIdentity, Workload, "version(old) = version(new)", 0, "",
			"stress-ng's timer handler re-arms up to 0.19.03 and not from 0.19.04 on",
			"The same program ran on both sides.", programsDiffer},
		{"V2", lawHealth, Workload, "every execution reports a number", 0, "",
			"an execution that fails or calls itself untrustworthy is refused when it is read (package stressng)",
			"Every boot that was to measure did.", nothingMeasured},
		{"K12", lawParts, Workload, "|ticks - (signals + overruns)| / ticks", unaccounted, "of the ticks",
			"the workload's own figures", "A total is the sum of its parts.", partsMissing},
	}
}

func promises() []Law {
	laws := []Law{{"K1", lawConserved, Promise, "S = X + E + C + R + pending", 0, "",
		"timer:hrtimer_* events; tolerance: docs/semantics.md", "Every timer that was started is accounted for.",
		timersLost}}
	add := func(id, name, formula string, bound float64, unit, source string) {
		laws = append(laws, Law{id, name, Promise, formula, bound, unit, source, probes.Meaning(name), broken(name)})
	}
	for _, name := range slices.Sorted(maps.Keys(probes.Interfaces)) {
		add("K2", probes.InterfaceLate(name), "median(end - due)", 20e6, "ns", "docs/semantics.md, Late")
		add("K2", probes.InterfaceEarly(name), "max(due - end)", 0, "ns", "POSIX: no wait ends early")
	}
	add("K3", probes.NanosleepGrid, "largest share of wake-ups in a tenth of a period", 0.6, "fraction",
		"docs/semantics.md, Grid")
	add("K4", probes.PeriodicTicks, "|signals + overruns - periods|", 2, "ticks", "POSIX, timer_getoverrun()")
	add("K6", probes.PendingDelivered, "failed tries", 0, "tries", "POSIX, timer_create()")
	add("K6", probes.OneshotOnce, "failed tries", 0, "tries", "POSIX, timer_settime()")
	add("K6", probes.TimerIdentity, "signals with another value or id", 0, "signals", "POSIX, timer_create()")
	add("K6", probes.OverrunInHandler, "signals with si_overrun != timer_getoverrun()", 0, "signals",
		"POSIX, timer_getoverrun()")
	add("K6", probes.IgnoredResumes, "time to the first signal", 1e9, "ns", "POSIX, signal actions")
	add("K9", probes.RoundtripLate, "median(round trip) while idle > 50 %", 50e6, "ns",
		"two ticks at HZ=100, and what a busy host adds")
	add("K9", probes.RoundtripStall, "95th percentile(round trip) while idle > 50 %", 100e6, "ns",
		"an emulated guest on a busy host stays below 20 ms")
	add("K9", probes.RoundtripKept, "messages lost or altered", 0, "messages", "POSIX, mq_receive()")
	return laws
}

func markers() []Law {
	var laws []Law
	for _, m := range []struct{ id, name, source string }{
		{"K5", probes.StaleRearm, settime}, {"K5", probes.StaleRearmPeriodic, settime},
		{"K7", probes.IgnoredKept, "POSIX, signal actions: how an ignored timer goes on is left open"},
		{"K8", probes.StaleDisarm, settime}, {"K8", probes.StaleDisarmPeriodic, settime},
		{"K8", probes.StaleDelete, "POSIX, timer_delete(): unspecified; Linux commit 513793bc6ab3"}} {
		laws = append(laws, Law{m.id, m.name, Marker, "signals delivered in 20 tries", 0, "",
			m.source, probes.Meaning(m.name), flipped(m.name)})
	}
	return laws
}

// settime is the source of markers about timer_settime().
const settime = "POSIX, timer_settime(): unspecified; Linux commit 513793bc6ab3"

func comparisons() []Law {
	return []Law{
		{"V3", lawSettings, Comparison, "settings(old) = settings(new)", 0, "",
			"idle driver and governor, preemption, timer migration, clockevent device",
			"Both kernels ran under the same settings.", settingsDiffer},
		{"K4", lawAccounting, Comparison, "(operations + overruns) / time, new / old", fewerTicks, "of the old one",
			"timer_getoverrun(2)", "The kernel accounts for as many expiries; told, not judged.", ticksFell},
		{"K10", lawMix, Comparison, "events / operations, new / old", sameMix, "of the larger one",
			"timer events and voluntary context switches", "An operation is the same work as before.", mixDiffers},
		{"K11", lawEfficiency, Comparison, "operations / (user + system time), new / old", sameCost, "of the old one",
			"getrusage(2)", "An operation costs as much processor time as before.", costDiffers},
	}
}
