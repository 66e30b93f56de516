package judge

import (
	"strings"
	"testing"
	"time"

	"bisectd/bisect"
	"bisectd/workloads"
	"bisectd/workloads/probes"
)

// figures are what a public report says of one side. Rates are per second of
// wall time; what was not published is left zero, or, where the judge needs
// it, made equal on both sides.
type figures struct {
	value    float64 // the metric
	sd       float64 // of it between boots, relative; 1 % where not published
	better   workloads.Better
	ops      float64 // a second; the value where zero
	cpu      float64 // processor seconds a second
	switches float64 // voluntary, per operation
	ticks    float64 // operations and overruns, a second
	stale    bool    // signals of an earlier setting are delivered
	grid     bool    // sleepers wake on a half-second grid
	preempt  string
	crash    string
	version  string
	starts   float64 // of posix_timer_fn in the traced run, expiries follow
	expiries float64
	signals  float64 // received in the traced run
}

func (f figures) observations() bisect.Observations {
	ops := f.ops
	if ops == 0 {
		ops = f.value
	}
	trace := bisect.Observation{Profile: bisect.TraceBoot, Ending: bisect.Completed, Probe: f.probe(),
		Samples: []workloads.Sample{{Ops: 1e6, Signals: f.signals, Version: f.version}},
		Tally: &workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
			"posix_timer_fn": {Start: uint64(f.starts), Expire: uint64(f.expiries), Timers: 1}}}}
	if f.starts == 0 {
		trace.Tally.Callbacks["posix_timer_fn"] = workloads.Lives{Start: 1e6, Expire: 1e6, Timers: 1}
	}
	if f.crash != "" {
		trace.Ending, trace.Detail = bisect.Crashed, f.crash
		return bisect.Observations{trace, trace, trace}
	}
	all := bisect.Observations{trace}
	sd := f.sd
	if sd == 0 {
		sd = 0.01
	}
	for _, z := range []float64{-1.2, 0.8, 0.1, 1.1, -0.9, 0.1} { // six boots of mean 0 and sd 1
		s := workloads.Sample{Ops: ops, Wall: time.Second, User: time.Duration(f.cpu * 1e9), Switches: f.switches * ops,
			Version: f.version, Metrics: []workloads.Metric{{Name: "ops", Unit: "ops/s", Better: f.better, Value: f.value * (1 + sd*z)}}}
		if f.ticks > 0 {
			s.Metrics = append(s.Metrics, workloads.Metric{Name: "ticks_per_s", Value: f.ticks})
		}
		all = append(all, bisect.Observation{Profile: bisect.MetricBoot, Ending: bisect.Completed,
			Samples: []workloads.Sample{s}, Fingerprint: bisect.Fingerprint{Settings: map[string]string{"preempt": f.preempt}}})
	}
	return all
}

func (f figures) probe() workloads.ProbeRecord {
	late := workloads.Invariant{Name: probes.InterfaceLate("nanosleep"), Result: workloads.Pass, Value: 2e5, Bound: 2e7, Unit: "ns"}
	if f.grid {
		late.Result, late.Value = workloads.Fail, 2.5e8
	}
	return workloads.ProbeRecord{Invariants: []workloads.Invariant{late},
		Markers: []workloads.Marker{{Name: probes.StaleRearm, Measured: true, Clear: true, Seen: f.stale}}}
}

// TestPublicCases holds the judge to reports that were made in public, with
// what came out of their discussion.
func TestPublicCases(t *testing.T) {
	const higher, lower = workloads.Higher, workloads.Lower
	cases := []struct {
		name     string
		old, new figures
		padded   *figures // the new side with aligned functions
		want     bisect.Class
		reason   string
	}{
		{"513793bc6ab3, stress-ng timer, as reported", // 6.12 against 6.13, one instance at 1 MHz
			figures{value: 489125, better: higher, cpu: 0.727, switches: 0.064, ticks: 648000, stale: true},
			figures{value: 134951, better: higher, cpu: 0.265, switches: 0.999, ticks: 812000}, nil,
			bisect.BehaviourChange, probes.StaleRearm},
		{"513793bc6ab3 by its counters alone", // no probe was run by the reporter
			figures{value: 489125, better: higher, cpu: 0.727, switches: 0.064, ticks: 648000},
			figures{value: 134951, better: higher, cpu: 0.265, switches: 0.999, ticks: 812000}, nil,
			bisect.BehaviourChange, "voluntary context switches per op 0.06 -> 1.00"},
		{"513793bc6ab3 as the robot saw it, 64 threads",
			figures{value: 25223871, better: higher, cpu: 54, switches: 3.1e-5, stale: true},
			figures{value: 7733023, sd: 0.06, better: higher, cpu: 27, switches: 0.81}, nil,
			bisect.BehaviourChange, "voluntary context switches"},
		{"2.6.32.60, sleepers on a half-second grid", // a test of 0.7 s takes 8 s
			figures{value: 0.7, better: lower}, figures{value: 8, better: lower, grid: true}, nil,
			bisect.Regression, "nanosleep-late"},
		{"92f7ee408c, timermix: hang handling", // rare switches, the same cost, less idle
			figures{value: 73.36e6, better: higher, cpu: 137.3, switches: 1.59e-3},
			figures{value: 90.85e6, better: higher, cpu: 171.5, switches: 2.19e-4}, nil,
			bisect.Improvement, "capacity, not cost"},
		{"cccb45d7c4, dl_server: one benchmark", figures{value: 100, better: higher},
			figures{value: 63.3, better: higher}, nil, bisect.Regression, "costs more"},
		{"cccb45d7c4, dl_server: another benchmark", figures{value: 100, better: higher},
			figures{value: 370.9, better: higher}, nil, bisect.Improvement, "better"},
		{"a94204f4d4, timerfd: cheaper read hook", figures{value: 100, better: higher},
			figures{value: 107, better: higher}, nil, bisect.Improvement, "better"},
		{"e249056c91, mq: a cache line of its own", figures{value: 4178927, sd: 0.09, better: higher, cpu: 1},
			figures{value: 8118700, sd: 0.05, better: higher, cpu: 0.925}, nil, bisect.Improvement, "costs less"},
		{"82214756d3, clock: shorter write side", figures{value: 169868, better: higher, cpu: 1},
			figures{value: 218795, better: higher, cpu: 0.852}, nil, bisect.Improvement, "costs less"},
		{"403376ddb4, clock: the price of a feature", figures{value: 100, better: higher, cpu: 1},
			figures{value: 87.3, better: higher, cpu: 1}, nil, bisect.Regression, "costs more"},
		{"the processor is not offered", figures{value: 100, better: higher, cpu: 1},
			figures{value: 60, better: higher, cpu: 0.6}, nil, bisect.Regression, "capacity, not cost"},
		{"26bff7b04b, clock: code that does not run", figures{value: 100, better: higher},
			figures{value: 91.2, better: higher}, &figures{value: 100.2, better: higher}, bisect.Layout, "by chance"},
		{"09c60546f04f, alignment alone", figures{value: 100, better: higher},
			figures{value: 81.5, better: higher}, &figures{value: 99.6, better: higher}, bisect.Layout, "by chance"},
		{"starved clockevents, an NMI lockup", figures{value: 100, better: higher},
			figures{crash: "watchdog: hard LOCKUP on cpu 1"}, nil, bisect.Regression, "hard LOCKUP"},
		{"7.0, another preemption default", figures{value: 98565, better: higher, preempt: "voluntary"},
			figures{value: 50751, better: higher, preempt: "lazy"}, nil, bisect.EnvironmentShift, "lazy"},
		{"another stress-ng at one end", figures{value: 5000, better: higher, version: "stress-ng 0.19.02"},
			figures{value: 9000, better: higher, version: "stress-ng 0.19.04"}, nil, bisect.Inconclusive, "0.19.04"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			j := &Judge{Metric: "ops", MinEffect: 0.03, Error: 0.05, Exercises: []string{"stale-signal", "nanosleep"}}
			old, new := c.old.observations(), c.new.observations()
			e := bisect.Evidence{VCPUs: 1, Old: old, New: new, Shift: j.Shift(old, new)}
			if c.padded != nil {
				shift := j.Shift(old, c.padded.observations())
				e.Padded = &shift
			}
			got := j.Classify(e)
			t.Logf("%s:\n\t%s", got.Class, strings.Join(got.Reasons, "\n\t"))
			if got.Class != c.want || !strings.Contains(strings.Join(got.Reasons, "\n"), c.reason) {
				t.Errorf("class %s, want %s for %q", got.Class, c.want, c.reason)
			}
		})
	}
}

// TestTraceWithoutExpiries has the trace of a public report: 17 million starts
// and 31 thousand expiries, where the workload received seven million signals.
// It is the instrument that is wrong, and nothing follows for the kernel.
func TestTraceWithoutExpiries(t *testing.T) {
	j := &Judge{Metric: "ops", MinEffect: 0.03, Error: 0.05, Exercises: []string{"nanosleep"}}
	old := figures{value: 489125, better: workloads.Higher, starts: 8.4e6, expiries: 8.36e6, signals: 8.3e6}.observations()
	new := figures{value: 304528, better: workloads.Higher, starts: 17067784, expiries: 30841, signals: 7e6}.observations()
	got := j.Classify(bisect.Evidence{Old: old, New: new, Shift: j.Shift(old, new)})
	if why := strings.Join(got.Reasons, "\n"); got.Class != bisect.Inconclusive || !strings.Contains(why, "lost or filtered events") {
		t.Errorf("class %s: %s", got.Class, why)
	}
	if len(got.Callbacks) != 0 {
		t.Errorf("callbacks were compared: %+v", got.Callbacks)
	}
}

// TestTracesOfTheSameCommit has two traces of two seconds that were made public
// with the same commit. Of all timers of the new kernel a third do not expire,
// and none is lost: signals interrupt sleeps, which are cancelled and started
// anew.
func TestTracesOfTheSameCommit(t *testing.T) {
	trace := func(ops float64, posix, sleep workloads.Lives) bisect.Observation {
		return bisect.Observation{Profile: bisect.TraceBoot, Ending: bisect.Completed, Samples: []workloads.Sample{{Ops: ops}},
			Tally: &workloads.Tally{WasArmed: true,
				Callbacks: map[string]workloads.Lives{"posix_timer_fn": posix, "hrtimer_wakeup": sleep}}}
	}
	fast := figures{value: 123500, better: workloads.Higher}.observations()
	slow := figures{value: 76000, better: workloads.Higher}.observations()
	fast[0] = trace(247e3, workloads.Lives{Start: 246739, Expire: 246739, Timers: 1},
		workloads.Lives{Start: 2, Expire: 2, Timers: 1})
	slow[0] = trace(152e3, workloads.Lives{Start: 304673, Expire: 304674, Timers: 1},
		workloads.Lives{Start: 152241, Expire: 1, Cancel: 152240, Timers: 1})
	j := &Judge{Metric: "ops", MinEffect: 0.03, Error: 0.05}
	got := j.Classify(bisect.Evidence{VCPUs: 1, Old: fast, New: slow, Shift: j.Shift(fast, slow)})
	t.Logf("%s:\n\t%s\n\tnaive: %s", got.Class, strings.Join(got.Reasons, "\n\t"), got.Naive)
	if got.Class != bisect.BehaviourChange || !strings.Contains(got.Naive, "1.00 -> 0.67") {
		t.Errorf("class %s, naive %q", got.Class, got.Naive)
	}
	for _, c := range got.Callbacks {
		if !c.OldConserved || !c.NewConserved {
			t.Errorf("%s is not conserved", c.Function)
		}
	}
}

// TestClockThatRunsFast is a kernel under which timers ran at twice their rate
// (2.6.28): every rate of such a boot is void.
func TestClockThatRunsFast(t *testing.T) {
	f := bisect.Fingerprint{Clocksource: "tsc", HighRes: true, Resolution: 1, CPUs: 1, Drift: 1}
	if why := Gate(f, 1); !strings.Contains(why, "+100.00 %") {
		t.Errorf("got %q", why)
	}
}

// TestHostThatTakesTime is a guest on a host whose kernel takes 3 to 24 % of
// its time (446fcce2a52b, kvmclock): the boots are void, no guest kernel is
// judged.
func TestHostThatTakesTime(t *testing.T) {
	for _, steal := range []float64{0.03, 0.24} {
		f := bisect.Fingerprint{Clocksource: "kvm-clock", HighRes: true, Resolution: 1, CPUs: 2, Steal: steal}
		if why := Gate(f, 2); !strings.Contains(why, "took") {
			t.Errorf("steal %g: %q", steal, why)
		}
	}
}
