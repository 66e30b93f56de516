package judge

import (
	"strings"
	"testing"

	"bisectd/bisect"
	"bisectd/workloads"
)

// side describes one side of a final pair.
type side struct {
	stale     bool
	late      workloads.Result
	ops       []float64
	callbacks map[string]workloads.Lives
	tracedOps float64
	ending    bisect.Ending
	unclear   bool   // the marker, in some tries
	lossy     bool   // the trace
	governor  string // a setting of the environment
}

func (s side) observations() bisect.Observations {
	trace := bisect.Observation{Profile: bisect.TraceBoot, Ending: bisect.Completed,
		Probe: workloads.ProbeRecord{
			Markers:    []workloads.Marker{{Name: "stale-signal-after-rearm", Measured: true, Clear: !s.unclear, Seen: s.stale}},
			Invariants: []workloads.Invariant{{Name: "nanosleep-late", Result: s.late, Detail: "p50"}},
		},
		Samples: []workloads.Sample{{Ops: s.tracedOps}},
		Tally:   &workloads.Tally{WasArmed: true, Callbacks: s.callbacks},
	}
	if s.lossy {
		trace.Tally.Dropped = 1
	}
	if s.ending != "" {
		trace.Ending, trace.Detail = s.ending, "Kernel panic"
	}
	metric := boots(s.ops...)
	for i := range metric {
		metric[i].Fingerprint.Settings = map[string]string{"governor": s.governor}
	}
	if s.ending != "" { // once could be the host's doing
		return append(bisect.Observations{trace, trace}, metric...)
	}
	return append(bisect.Observations{trace}, metric...)
}

func TestClassify(t *testing.T) {
	timers := func(start, expire uint64) map[string]workloads.Lives {
		return map[string]workloads.Lives{"posix_timer_fn": {Start: start, Expire: expire, Timers: 1}}
	}
	fast, slow := []float64{100, 101, 99}, []float64{75, 76, 74}
	sound := side{stale: true, late: workloads.Pass, ops: fast, callbacks: timers(1000, 1000), tracedOps: 1000}
	with := func(change func(*side)) side { s := sound; change(&s); return s }
	tests := []struct {
		name     string
		old, new side
		want     bisect.Class
		reason   string
	}{
		{"stale signals no longer delivered", sound,
			with(func(s *side) { s.stale, s.ops = false, slow }), bisect.BehaviourChange, "stale-signal-after-rearm"},
		{"sleepers late, metric still", sound,
			with(func(s *side) { s.late = workloads.Fail }), bisect.Regression, "nanosleep-late"},
		{"sleepers late, metric better", sound,
			with(func(s *side) { s.late, s.ops = workloads.Fail, []float64{200, 201, 199} }), bisect.Regression, "nanosleep-late"},
		{"timers lost", sound,
			with(func(s *side) { s.callbacks = timers(1000, 600) }), bisect.Regression, "get lost"},
		{"more expiries than starts is a trace's edge", sound, with(func(s *side) {
			s.callbacks, s.ops = timers(1000, 1040), append(fast, 100, 100)
		}), bisect.NotReproduced, ""},
		{"other work per operation", sound,
			with(func(s *side) { s.ops, s.callbacks = slow, timers(2000, 2000) }), bisect.BehaviourChange, "same work"},
		{"sleepers in time again", with(func(s *side) { s.late = workloads.Fail }),
			with(func(s *side) { s.ops = append(fast, 100, 100) }), bisect.Improvement, "was broken"},
		{"sleepers in time again at a price", with(func(s *side) { s.late = workloads.Fail }),
			with(func(s *side) { s.ops = slow }), bisect.BehaviourChange, "pays for it"},
		{"another idle governor", sound, with(func(s *side) { s.ops, s.governor = slow, "menu" }), bisect.EnvironmentShift, "menu"},
		{"a marker that is not clear", sound, with(func(s *side) { s.ops, s.unclear = slow, true }), bisect.Inconclusive, "not clear"},
		{"a lossy trace", sound, with(func(s *side) { s.ops, s.lossy = slow, true }), bisect.Inconclusive, "lost 1 entries"},
		{"plain slowdown", sound, with(func(s *side) { s.ops = slow }), bisect.Regression, "costs more"},
		{"plain speed-up", sound,
			with(func(s *side) { s.ops = []float64{200, 201, 199} }), bisect.Improvement, "better"},
		{"nothing", with(func(s *side) { s.ops = append(fast, 100, 100) }),
			with(func(s *side) { s.ops = append(fast, 100, 100) }), bisect.NotReproduced, "does not move"},
		{"too noisy", sound, with(func(s *side) { s.ops = []float64{60, 130, 90} }), bisect.Inconclusive, "not clear"},
		{"new kernel crashes", sound, with(func(s *side) { s.ending = bisect.Crashed }), bisect.Regression, "Kernel panic"},
		{"parent crashes", with(func(s *side) { s.ending = bisect.Crashed }), sound, bisect.Inconclusive, "Kernel panic"},
		{"an invariant is not measured", sound,
			with(func(s *side) { s.late = workloads.NotMeasured; s.ops = append(fast, 100, 100) }), bisect.NotReproduced, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := rules()
			old, new := tt.old.observations(), tt.new.observations()
			got := j.Classify(bisect.Evidence{VCPUs: 1, Old: old, New: new, Shift: j.Shift(old, new)})
			if got.Class != tt.want {
				t.Errorf("class = %s, want %s; reasons %q", got.Class, tt.want, got.Reasons)
			}
			if !strings.Contains(strings.Join(got.Reasons, "\n"), tt.reason) {
				t.Errorf("reasons %q lack %q", got.Reasons, tt.reason)
			}
		})
	}
}

func TestClassifyLayout(t *testing.T) {
	j, timers := rules(), map[string]workloads.Lives{"posix_timer_fn": {Start: 1000, Expire: 1000, Timers: 1}}
	at := func(ops ...float64) bisect.Observations {
		return side{stale: true, late: workloads.Pass, ops: ops, callbacks: timers, tracedOps: 1000}.observations()
	}
	old, new := at(100, 101, 99), at(90, 91, 89)
	for name, tt := range map[string]struct {
		padded bisect.Shift
		want   bisect.Class
	}{
		"gone":  {j.Shift(at(100, 101, 99, 100), at(100, 99, 101, 100)), bisect.Layout},
		"there": {j.Shift(at(95, 96, 94), at(85, 86, 84)), bisect.Regression},
	} {
		got := j.Classify(bisect.Evidence{Old: old, New: new, Shift: j.Shift(old, new), Padded: &tt.padded})
		if got.Class != tt.want {
			t.Errorf("%s: class = %s, want %s; reasons %q", name, got.Class, tt.want, got.Reasons)
		}
	}
}

func TestNaive(t *testing.T) {
	old := side{late: workloads.Pass, ops: []float64{100, 101, 99}, tracedOps: 1,
		callbacks: map[string]workloads.Lives{"posix_timer_fn": {Start: 100, Expire: 100}, "hrtimer_wakeup": {Start: 50, Cancel: 50}}}
	new := old
	new.ops = []float64{75, 76, 74}
	new.callbacks = map[string]workloads.Lives{"posix_timer_fn": {Start: 100, Expire: 100}, "hrtimer_wakeup": {Start: 150, Cancel: 150}}
	j := rules()
	o, n := old.observations(), new.observations()
	got := j.Classify(bisect.Evidence{Old: o, New: n, Shift: j.Shift(o, n)}).Naive
	if want := "a 25.0 % regression of ops; expiries per start of all timers 0.67 -> 0.40"; got != want {
		t.Errorf("naive = %q, want %q", got, want)
	}
}

func TestSignalsAreOrderedByCost(t *testing.T) {
	old := side{stale: true, late: workloads.Pass, ops: []float64{100, 101, 99}}
	new := side{late: workloads.Fail, ops: []float64{75, 76, 74}}
	var got []string
	for _, s := range rules().Signals(old.observations(), new.observations()) {
		related := ""
		if !s.Related {
			related = " (unrelated)"
		}
		got = append(got, string(s.Kind)+" "+s.Name+related)
	}
	want := "invariant nanosleep-late (unrelated), marker stale-signal-after-rearm, metric ops"
	if strings.Join(got, ", ") != want {
		t.Errorf("signals = %q, want %q", strings.Join(got, ", "), want)
	}
}
