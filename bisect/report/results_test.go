package report

import (
	"fmt"
	"time"

	"bisectd/bisect"
	"bisectd/workloads"
	"bisectd/workloads/probes"
)

func commit(n int, subject string) bisect.Commit {
	return bisect.Commit{ID: fmt.Sprintf("%012x%028d", 0xabc000000000+n*0x1111, n), Subject: subject,
		Author: "A U Thor <author@example.org>", Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
}

// base is a run of which nothing has come out yet.
func base() bisect.Result {
	return bisect.Result{
		Run: "posix-timers-1", Good: commit(0, "Linux 6.12"), Bad: commit(99, "Linux 6.13"), Commits: 14,
		Job: bisect.Job{Name: "posix-timers", Good: []string{"v6.12"}, Bad: "v6.13",
			Machine:  bisect.Machine{VCPUs: []int{1, 2}, Memory: 1 << 10, Accel: "auto"},
			Workload: bisect.Work{Name: "stress-ng/timer", Duration: bisect.Duration(3 * time.Second), Runs: 3},
			Judge:    bisect.Rules{Metric: "bogo_ops_per_s"}},
		Accel: "tcg", AccelWhy: "no kernel reached the agent under KVM within 1m0s, on 1 try",
		Workload: "stress-ng 0.15.06", Compiler: "gcc (Debian 12.2.0-14) 12.2.0",
		Builds: 5, Reused: 1, Boots: 34, Voided: 2, Elapsed: 48*time.Minute + 12345*time.Millisecond,
	}
}

func shift(old, new, low, high float64, boots int, decision bisect.Change) bisect.Shift {
	return bisect.Shift{Metric: "bogo_ops_per_s", Unit: "ops/s", Better: workloads.Higher,
		Old:    bisect.Level{Mean: old, SD: 0.01 * old, Boots: make([]float64, boots)},
		New:    bisect.Level{Mean: new, SD: 0.01 * new, Boots: make([]float64, boots)},
		Effect: new/old - 1, Low: low, High: high, Decision: decision}
}

func invariant(name string, old, new, bound float64, broken bool) bisect.InvariantPair {
	i := bisect.InvariantPair{Name: name,
		Old: workloads.Invariant{Name: name, Result: workloads.Pass, Value: old, Bound: bound, Unit: "ns", Detail: "median of 200"},
		New: workloads.Invariant{Name: name, Result: workloads.Pass, Value: new, Bound: bound, Unit: "ns", Detail: "median of 200"}}
	if broken {
		i.New.Result = workloads.Fail
	}
	return i
}

func marker(name string, old, new bool) bisect.MarkerPair {
	detail := map[bool]string{true: "20/20", false: "0/20"}
	return bisect.MarkerPair{Name: name, Flipped: old != new,
		Old: workloads.Marker{Name: name, Measured: true, Seen: old, Clear: true, Detail: detail[old]},
		New: workloads.Marker{Name: name, Measured: true, Seen: new, Clear: true, Detail: detail[new]}}
}

func test(n int, subject string, v bisect.Verdict, detail string, s *bisect.Signal) bisect.Test {
	return bisect.Test{Commit: commit(n, subject), Verdict: v, Detail: detail, Boots: 1, Signal: *s}
}

// behaviourChange: stale signals are no longer delivered, operations per
// second fall, every timer is accounted for.
func behaviourChange() bisect.Result {
	r := base()
	first, parent := commit(7, "posix-timers: Make signal delivery consistent"),
		commit(6, "signal: Add task argument to flush_sigqueue_mask()")
	r.Class, r.FirstNew, r.Parent = bisect.BehaviourChange, &first, &parent
	r.Guide = &bisect.Signal{Kind: bisect.MarkerSignal, Name: probes.StaleRearm, Old: "seen (20/20)", New: "absent (0/20)"}
	r.Reasons = []string{
		probes.StaleRearm + " seen (20/20) -> absent (0/20): POSIX leaves this open, and the workload depends on it",
		"an operation no longer is the same work: posix_timer_fn expires 8.31 times per operation instead of 5.02",
		"a correct user loses nothing: 3 invariants hold (nanosleep-late, timerfd-late, posix-timer-late)",
		"every started timer is accounted for: posix_timer_fn, hrtimer_wakeup",
	}
	for i, n := range []int{1, 2} {
		r.Findings = append(r.Findings, bisect.Finding{
			VCPUs: n, Class: r.Class, Reasons: r.Reasons, Shift: shift(5010, 3317-27*float64(i), -0.352, -0.321, 3, bisect.Moved),
			Invariants: []bisect.InvariantPair{
				invariant(probes.InterfaceLate("nanosleep"), 91_000, 92_100, 2e7, false),
				invariant(probes.InterfaceLate("timerfd"), 81_000, 80_100, 2e7, false),
				invariant(probes.InterfaceLate("posix-timer"), 71_000, 72_900, 2e7, false)},
			Markers: []bisect.MarkerPair{marker(probes.StaleRearm, true, false), marker(probes.StaleDisarm, true, false),
				marker(probes.StaleDelete, false, false)},
			Callbacks: []bisect.CallbackPair{
				{Function: "posix_timer_fn", OldOps: 15030, NewOps: 9951, OldConserved: true, NewConserved: true,
					Old: workloads.Lives{Start: 80676, Expire: 73002, Cancel: 0, Rearm: 7673, Timers: 1},
					New: workloads.Lives{Start: 85648, Expire: 83100, Cancel: 1, Rearm: 2546, Timers: 1}},
				{Function: "hrtimer_wakeup", OldOps: 15030, NewOps: 9951, OldConserved: true, NewConserved: true,
					Old: workloads.Lives{Start: 3215, Expire: 3, Cancel: 3211, Timers: 2},
					New: workloads.Lives{Start: 8711, Expire: 1, Cancel: 8709, Timers: 2}},
				{Function: "tick_nohz_handler", OldOps: 15030, NewOps: 9951, OldConserved: true, NewConserved: true,
					Old: workloads.Lives{Start: 751, Expire: 750, Timers: 1}, New: workloads.Lives{Start: 752, Expire: 751, Timers: 1}}},
			Naive: "a 33.8 % regression of bogo_ops_per_s; expiries per start of all timers 0.87 -> 0.88",
		})
	}
	r.Ends, r.EndVCPUs = []bisect.Shift{shift(5022, 3301, -0.36, -0.325, 3, bisect.Moved)}, []int{1}
	r.Tests = []bisect.Test{
		test(9, "posix-timers: Drop signal if timer has been deleted or reprogrammed", bisect.New, probes.StaleRearm+" absent (0/20)", r.Guide),
		test(3, "posix-timers: Cure si_sys_private race", bisect.Skip,
			"does not build: kernel/signal.c:1990:9: error: too few arguments to function 'send_sigqueue'", r.Guide),
		test(4, "signal: Confine POSIX_TIMERS properly", bisect.Old, probes.StaleRearm+" seen (20/20)", r.Guide),
		test(6, parent.Subject, bisect.Old, probes.StaleRearm+" seen (20/20)", r.Guide),
		test(7, first.Subject, bisect.New, probes.StaleRearm+" absent (0/20)", r.Guide),
	}
	r.Tests[1].Boots = 0
	r.Unrelated = []bisect.Signal{{Kind: bisect.MarkerSignal, Name: probes.StaleDelete, Old: "seen (20/20)", New: "absent (0/20)"}}
	return r
}

// grid: sleepers wake on a half-second grid.
func grid() bisect.Result {
	r := base()
	first, parent := commit(5, "hrtimer: Coalesce expiries of sleepers"), commit(4, "hrtimer: Factor out the expiry")
	r.Class, r.FirstNew, r.Parent = bisect.Regression, &first, &parent
	r.Job.Judge.Metric, r.Job.Workload.Name = "sleep_ns", "probe/sleep"
	wide := 0.01
	r.Job.Judge.Checks = map[string]bisect.Override{"oneshot-fires-once": {Off: true}, "clock-drift": {Bound: &wide}}
	r.Guide = &bisect.Signal{Kind: bisect.InvariantSignal, Name: "nanosleep-late", Old: "91 µs", New: "249.8 ms"}
	broken := []bisect.InvariantPair{invariant("nanosleep-late", 91_000, 249_800_000, 2e7, true),
		{Name: probes.NanosleepGrid, Old: workloads.Invariant{Result: workloads.Pass, Value: 0, Bound: 0.6, Unit: ""},
			New: workloads.Invariant{Result: workloads.Fail, Value: 0.998, Bound: 0.6, Unit: ""}}}
	s := shift(1_091_000, 250_800_000, 228.1, 229.6, 3, bisect.Moved)
	s.Metric, s.Unit, s.Better = "sleep_ns", "ns", workloads.Lower
	r.Reasons = []string{"nanosleep-late held on the parent (median of 200) and is broken: median of 200",
		"nanosleep-grid held on the parent and is broken"}
	r.Findings = []bisect.Finding{{VCPUs: 1, Class: r.Class, Reasons: r.Reasons, Shift: s, Broken: broken,
		Invariants: append(broken, invariant("nanosleep-early", 0, 0, 0, false)), Markers: []bisect.MarkerPair{marker(probes.StaleRearm, true, true)},
		Callbacks: []bisect.CallbackPair{{Function: "hrtimer_wakeup", OldConserved: true, NewConserved: false,
			Old: workloads.Lives{Start: 600, Expire: 600}, New: workloads.Lives{Start: 600, Expire: 571}}},
		Naive: "a 22888.1 % regression of sleep_ns"}}
	r.Ends, r.EndVCPUs = []bisect.Shift{s}, []int{1}
	r.Tests = []bisect.Test{test(5, first.Subject, bisect.New, "nanosleep-late 249.8 ms", r.Guide),
		test(4, parent.Subject, bisect.Old, "nanosleep-late 91 µs", r.Guide)}
	return r
}

func improvement() bisect.Result {
	r := base()
	first, parent := commit(5, "hrtimer: Avoid reprogramming on re-arm"), commit(4, "hrtimer: Clean up")
	r.Class, r.FirstNew, r.Parent = bisect.Improvement, &first, &parent
	r.Guide = &bisect.Signal{Kind: bisect.MetricSignal, Name: "bogo_ops_per_s", Old: "5010 ops/s", New: "5420 ops/s"}
	r.Reasons = []string{"bogo_ops_per_s moves by +8.2 %, 95 % interval +6.9 to +9.4, higher being better, at the same work per operation"}
	r.Findings = []bisect.Finding{{VCPUs: 1, Class: r.Class, Reasons: r.Reasons, Shift: shift(5010, 5420, 0.069, 0.094, 5, bisect.Moved),
		Invariants: []bisect.InvariantPair{invariant("nanosleep-late", 91_000, 92_100, 2e7, false)},
		Naive:      "a 8.2 % improvement of bogo_ops_per_s"}}
	r.Tests = []bisect.Test{test(5, first.Subject, bisect.New, "5418 ops/s in 4 boots", r.Guide),
		test(4, parent.Subject, bisect.Old, "5007 ops/s in 4 boots", r.Guide)}
	r.Tests[0].Boots, r.Tests[1].Boots = 4, 4
	return r
}

func notReproduced() bisect.Result {
	r := base()
	r.Class, r.Builds, r.Boots = bisect.NotReproduced, 2, 18
	r.Reasons = []string{"the ends do not differ in bogo_ops_per_s at 1 vCPU: same", "the ends do not differ in bogo_ops_per_s at 2 vCPU: same"}
	r.Ends = []bisect.Shift{shift(5010, 5021, -0.011, 0.013, 4, bisect.Same), shift(5110, 5087, -0.021, 0.012, 4, bisect.Same)}
	r.EndVCPUs = []int{1, 2}
	return r
}

// comparison is of two packaged kernels, without a range.
func comparison() bisect.Result {
	r := behaviourChange()
	r.Commits, r.FirstNew, r.Parent, r.Guide, r.Tests, r.Ends, r.EndVCPUs = 0, nil, nil, nil, nil, nil, nil
	r.Good.Subject, r.Bad.Subject = "linux-image-6.12.118-cloud-amd64 6.12.118-1", "linux-binary-7.3.4-cloud-amd64 7.3.4-1"
	r.Builds, r.Reused = 0, 2
	return r
}

func inconclusive() bisect.Result {
	r := base()
	r.Class = bisect.Inconclusive
	r.Guide = &bisect.Signal{Kind: bisect.MarkerSignal, Name: probes.StaleRearm, Old: "seen (20/20)", New: "absent (0/20)"}
	r.Suspects = []bisect.Commit{commit(3, "posix-timers: Cure si_sys_private race"), commit(4, "signal: Confine POSIX_TIMERS properly")}
	r.Reasons = []string{"2 commits are left that the walk on stale-signal-after-rearm cannot tell apart: all but one cannot be tested"}
	r.Ends, r.EndVCPUs = []bisect.Shift{shift(5022, 3301, -0.36, -0.325, 3, bisect.Moved)}, []int{1}
	r.Tests = []bisect.Test{
		test(4, r.Suspects[1].Subject, bisect.New, probes.StaleRearm+" absent (0/20)", r.Guide),
		test(3, r.Suspects[0].Subject, bisect.Skip, "no-boot: Kernel panic - not syncing: \x1b[31mAttempted to kill init!\x1b[0m", r.Guide),
		test(2, "posix-timers: Add a refcount", bisect.Old, probes.StaleRearm+" seen (20/20)", r.Guide)}
	return r
}

// crowded has more of everything than a page holds.
func crowded() bisect.Result {
	r := behaviourChange()
	r.Class = bisect.Regression
	r.FirstNew.Subject += " with a subject that goes on for longer than any line of a mail should and then some more"
	for i := range 12 {
		name := fmt.Sprintf("invariant-%d-with-a-rather-long-name-that-takes-much-room", i)
		r.Reasons = append(r.Reasons, fmt.Sprintf("%s held on the parent and is broken: a sentence that is long enough to "+
			"need three lines of seventy-five columns when it is written into a report for people who read mail", name))
		r.Suspects = append(r.Suspects, commit(i, name))
		r.Unrelated = append(r.Unrelated, bisect.Signal{Name: name, Old: "seen (20/20)", New: "absent (0/20)"})
		f := r.Findings[0]
		f.Class, f.VCPUs = r.Class, i+1
		for k := range 12 {
			pair := invariant(fmt.Sprintf("%s-%d", name, k), 9.1e4, 2.498e8, 2e7, true)
			f.Broken, f.Mended, f.Invariants = append(f.Broken, pair), append(f.Mended, pair), append(f.Invariants, pair)
			f.Markers = append(f.Markers, marker(fmt.Sprintf("marker-%s-%d", name, k), true, false))
			f.Callbacks = append(f.Callbacks, bisect.CallbackPair{Function: fmt.Sprintf("callback_number_%d", k), OldConserved: true,
				Old: workloads.Lives{Start: 18446744073709551615}, OldOps: 10, NewOps: 10})
		}
		f.Naive = name + name + " " + name + " " + name + " " + name
		r.Findings = append(r.Findings, f)
		r.Ends, r.EndVCPUs = append(r.Ends, f.Shift), append(r.EndVCPUs, i+1)
	}
	r.AccelWhy = r.Reasons[len(r.Reasons)-1]
	r.Changes = []bisect.Found{{FirstNew: *r.FirstNew, Class: r.Class, Share: 0.7},
		{FirstNew: commit(3, "timers: Another change"), Class: bisect.Improvement, Share: -0.25}}
	return r
}
