package runner

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"bisectd/bisect"
	"bisectd/blame"
	"bisectd/kbuild"
	"bisectd/vm"
	"bisectd/vm/guest/proto"
	"bisectd/workloads"
)

// memory is a Journal that keeps finished work in a map.
type memory struct {
	finished map[string]json.RawMessage
	begun    []string
}

func (m *memory) Begin(_ context.Context, kind, key string, _ any) error {
	m.begun = append(m.begun, kind+" "+key)
	return nil
}

func (m *memory) End(_ context.Context, kind, key string, result any) error {
	text, err := json.Marshal(result)
	m.finished[kind+" "+key] = text
	return err
}

func (m *memory) Finished(_ context.Context, kind, key string, result any) (bool, error) {
	text, ok := m.finished[kind+" "+key]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(text, result)
}

func (m *memory) Artefact(context.Context, string) (string, error) { return "sha", nil }

// builder gives every commit the kernel that its tree names, or an error.
type builder struct {
	built  []string
	errors map[string]error
}

func (b *builder) Key(_ context.Context, s kbuild.Spec) (string, error) {
	return "key of " + s.Commit, nil
}

func (b *builder) Build(_ context.Context, s kbuild.Spec) (kbuild.Kernel, error) {
	b.built = append(b.built, s.Commit)
	return kbuild.Kernel{Key: s.Commit, Signature: s.Tree, Image: os.DevNull}, b.errors[s.Commit]
}

// launcher answers boots from a script; the last line of it repeats.
type launcher struct {
	script []func() (vm.Outcome, error)
	boots  int
	waited []time.Duration // between boots
}

func (l *launcher) Run(context.Context, vm.Config) (vm.Outcome, error) {
	next := l.script[min(l.boots, len(l.script)-1)]
	l.boots++
	return next()
}

// work is a Workload whose one number is its output's length.
type work struct{ workloads.Workload }

func (work) Parse(o workloads.Output) (workloads.Sample, error) {
	if o.Exit != 0 {
		return workloads.Sample{}, blame.Errorf(blame.Workload, "exit status %d", o.Exit)
	}
	return workloads.Sample{Ops: float64(len(o.Stdout))}, nil
}

func sound(clocksource string) func() (vm.Outcome, error) {
	print := &proto.Fingerprint{Clocksource: clocksource, HighRes: true, ResolutionNS: 1, CPUs: 1}
	return records(proto.Record{Fingerprint: print}, proto.Record{Step: &proto.StepResult{ID: "run-0", Stdout: []byte("four")}},
		proto.Record{Fingerprint: print}, proto.Record{End: &proto.End{}})
}

func records(list ...proto.Record) func() (vm.Outcome, error) {
	out := vm.Outcome{Ending: vm.Completed, Boot: time.Second}
	for i, r := range list {
		out.Records = append(out.Records, vm.Stamped{At: time.Duration(i) * time.Second, Record: r})
	}
	return func() (vm.Outcome, error) { return out, nil }
}

func ends(e vm.Ending, detail string) func() (vm.Outcome, error) {
	return func() (vm.Outcome, error) { return vm.Outcome{Ending: e, Detail: detail}, nil }
}

func speaks(e vm.Ending, detail string) func() (vm.Outcome, error) {
	return func() (vm.Outcome, error) { return vm.Outcome{Ending: e, Detail: detail, Spoke: true}, nil }
}

func fails(b blame.Blame) func() (vm.Outcome, error) {
	return func() (vm.Outcome, error) { return vm.Outcome{}, blame.Errorf(b, "scripted") }
}

type bench struct {
	*Runner
	builder  *builder
	launcher *launcher
	journal  *memory
}

func newBench(t *testing.T, script ...func() (vm.Outcome, error)) bench {
	t.Helper()
	b := bench{builder: &builder{errors: map[string]error{}}, launcher: &launcher{script: script},
		journal: &memory{finished: map[string]json.RawMessage{}}}
	b.Runner = b.restart(t)
	return b
}

// restart returns a new Runner over the same journal, as a new process has it.
func (b bench) restart(t *testing.T) *Runner {
	return &Runner{Workload: work{}, Builder: b.builder, Launcher: b.launcher, Journal: b.journal, Accel: vm.TCG, Dir: t.TempDir(),
		Pause: func(_ context.Context, d time.Duration) error {
			b.launcher.waited = append(b.launcher.waited, d)
			return nil
		},
		payloads: map[cargo]payload{{profile: bisect.MetricBoot}: {workload: work{}, version: "work 1", digest: "d"}}}
}

func metric(commit, tree string, ordinal int) bisect.Boot {
	return bisect.Boot{Commit: bisect.Commit{ID: commit, Tree: tree}, VCPUs: 1, Profile: bisect.MetricBoot, Ordinal: ordinal}
}

func TestObserve(t *testing.T) {
	timedOut := records(proto.Record{Step: &proto.StepResult{ID: "run-0", TimedOut: true, WallNS: 5e9}})
	tests := []struct {
		name   string
		script []func() (vm.Outcome, error)
		ending bisect.Ending // empty: an error
		blame  blame.Blame
		boots  int
	}{
		{"sound", list(sound("tsc")), bisect.Completed, 0, 1},
		{"a void boot is made again", list(sound("hpet"), sound("tsc")), bisect.Completed, 0, 2},
		{"a host that voids every boot stops the run", list(sound("hpet")), "", blame.Environment, maxAttempts},
		{"QEMU failing once", list(fails(blame.Infrastructure), sound("tsc")), bisect.Completed, 0, 2},
		{"QEMU failing always", list(fails(blame.Infrastructure)), "", blame.Infrastructure, maxAttempts},
		{"the user's fault is not tried again", list(fails(blame.User)), "", blame.User, 1},
		{"workload failing always", list(records(proto.Record{Step: &proto.StepResult{ID: "run-0", Exit: 3}})), "",
			blame.Workload, maxAttempts},
		{"no boot twice is a finding", list(ends(vm.NoBoot, "")), bisect.NoBoot, 0, 2},
		{"a panic is a finding at once", list(speaks(vm.Panicked, "oops"), sound("tsc")), bisect.Crashed, 0, 1},
		{"so is one before the agent", list(speaks(vm.NoBoot, "oops"), sound("tsc")), bisect.NoBoot, 0, 1},
		{"a silent reset is none", list(ends(vm.Reset, ""), sound("tsc")), bisect.Completed, 0, 2},
		{"a silent reset twice is a finding", list(ends(vm.Reset, "")), bisect.Crashed, 0, 2},
		{"a panic after a silent failure counts alone", list(ends(vm.Hung, ""), speaks(vm.Panicked, "oops")), bisect.Crashed, 0, 2},
		{"hang twice is a finding", list(ends(vm.Hung, "")), bisect.Hung, 0, 2},
		{"workload that never ends is a finding", list(timedOut), bisect.Hung, 0, 2},
		{"a stall of the host is none", list(ends(vm.Hung, ""), sound("tsc")), bisect.Completed, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.script...)
			o, err := b.Observe(t.Context(), metric("c1", "t1", 0))
			if (err != nil) != (tt.ending == "") || err != nil && blame.Of(err) != tt.blame {
				t.Fatalf("error %v, want blame %s: %v", err, tt.blame, tt.ending == "")
			}
			if err == nil && o.Ending != tt.ending {
				t.Errorf("ending = %s, want %s", o.Ending, tt.ending)
			}
			if b.launcher.boots != tt.boots {
				t.Errorf("%d boots, want %d", b.launcher.boots, tt.boots)
			}
		})
	}
}

// TestObserveWaitsOutABusyHost gives another job on the host minutes to end,
// and does not count against the kernel what the host was too busy for.
func TestObserveWaitsOutABusyHost(t *testing.T) {
	busy := func() (vm.Outcome, error) {
		o, err := sound("tsc")()
		o.Waited = 0.5
		return o, err
	}
	b := newBench(t, busy, busy, busy, busy, busy, fails(blame.Infrastructure), sound("tsc"))
	o, err := b.Observe(t.Context(), metric("c1", "t1", 0))
	if err != nil {
		t.Fatal(err)
	}
	second := time.Second
	want := []time.Duration{10 * second, 40 * second, 60 * second, 60 * second, 60 * second, 6 * second}
	if !slices.Equal(b.launcher.waited, want) || len(o.Voided) != 6 {
		t.Errorf("waited %v, want %v; voided %q", b.launcher.waited, want, o.Voided)
	}
}

// TestObserveBelievesNoSingleSilence: a silent failure that nothing repeats is
// the host's.
func TestObserveBelievesNoSingleSilence(t *testing.T) {
	void := fails(blame.Infrastructure)
	b := newBench(t, void, void, void, func() (vm.Outcome, error) { return vm.Outcome{Ending: vm.Hung, Detail: "silent"}, nil })
	if o, err := b.Observe(t.Context(), metric("c1", "t1", 0)); blame.Of(err) != blame.Infrastructure {
		t.Errorf("observed %s, error %v", o.Ending, err)
	}
}

func list(script ...func() (vm.Outcome, error)) []func() (vm.Outcome, error) { return script }

func TestObserveRepeatsNothingThatIsFinished(t *testing.T) {
	b := newBench(t, sound("hpet"), sound("tsc"))
	first, err := b.Observe(t.Context(), metric("c1", "t1", 0))
	if err != nil {
		t.Fatal(err)
	}
	second := b.restart(t)
	again, err := second.Observe(t.Context(), metric("c1", "t1", 0))
	if err != nil {
		t.Fatal(err)
	}
	if b.launcher.boots != 2 || len(b.journal.begun) != 3 {
		t.Errorf("%d boots, begun %q over both processes, want 2 boots and 1 build", b.launcher.boots, b.journal.begun)
	}
	if again.Samples[0].Ops != first.Samples[0].Ops {
		t.Errorf("observed %v again, want %v", again.Samples, first.Samples)
	}
	if got, want := second.Totals(), b.Totals(); got != want || got.Boots != 2 || got.Voided != 1 || got.Builds != 1 {
		t.Errorf("totals after the restart %+v, before %+v; want 2 boots, 1 voided, 1 build in both", got, want)
	}
}

func TestObserveBootsEqualCodeOnce(t *testing.T) {
	b := newBench(t, sound("tsc"))
	for _, boot := range []bisect.Boot{metric("c1", "same", 0), metric("c2", "same", 0), metric("c2", "same", 1), metric("c3", "other", 0)} {
		o, err := b.Observe(t.Context(), boot)
		if err != nil {
			t.Fatal(err)
		}
		if o.Commit != boot.Commit.ID {
			t.Errorf("observation of %s is labelled %s", boot.Commit.ID, o.Commit)
		}
	}
	if b.launcher.boots != 3 {
		t.Errorf("%d boots, want 3: c1 and c2 hold the same code", b.launcher.boots)
	}
}

func TestObserveBuildFailures(t *testing.T) {
	b := newBench(t, sound("tsc"))
	b.builder.errors["c1"] = blame.Errorf(blame.Kernel, "a.c:1: error: no such thing")
	b.builder.errors["c2"] = errors.New("disk on fire")
	o, err := b.Observe(t.Context(), metric("c1", "t1", 0))
	if err != nil || o.Ending != bisect.NoBuild || !strings.Contains(o.Detail, "no such thing") {
		t.Errorf("Observe = %s %q, %v; want %s with the error line", o.Ending, o.Detail, err, bisect.NoBuild)
	}
	if _, err := b.restart(t).Observe(t.Context(), metric("c1", "t1", 0)); err != nil || len(b.builder.built) != 1 {
		t.Errorf("a commit known not to build was built %d times, error %v", len(b.builder.built), err)
	}
	if _, err := b.Observe(t.Context(), metric("c2", "t2", 0)); err == nil || blame.Of(err) != blame.Infrastructure {
		t.Errorf("error %v, want blame of the infrastructure", err)
	}
}

func TestFingerprint(t *testing.T) {
	first := proto.Fingerprint{Clocksource: "tsc-early", HighRes: true, ResolutionNS: 1, CPUs: 2, UptimeNS: 1e9, StealTicks: 10}
	last := first
	last.Clocksource, last.UptimeNS, last.StealTicks = "tsc", 2e9, 30
	out, _ := records(proto.Record{Fingerprint: &first}, proto.Record{Clock: &proto.Clock{MonotonicNS: 5e9}},
		proto.Record{Clock: &proto.Clock{MonotonicNS: 6.03e9}}, proto.Record{Fingerprint: &last})()
	got := fingerprint(out.Records)
	if got.Clocksource != "tsc" || got.Steal != 0.1 || got.Drift < 0.0099 || got.Drift > 0.0101 {
		t.Errorf("fingerprint = %+v, want tsc, steal 0.1 and drift 0.01", got)
	}
	out, _ = records(proto.Record{Fingerprint: &first}, proto.Record{Clock: &proto.Clock{MonotonicNS: 5e9}},
		proto.Record{Clock: &proto.Clock{MonotonicNS: 6.015e9}}, proto.Record{Fingerprint: &last})()
	if got := fingerprint(out.Records); got.Drift != 0 {
		t.Errorf("drift %g from 15 ms that a record was on its way", got.Drift)
	}
}

// TestBuildIsTriedAgain: memory or disk may be short for minutes.
func TestBuildIsTriedAgain(t *testing.T) {
	b := newBench(t, sound("tsc"))
	b.builder.errors = map[string]error{"c1": blame.Errorf(blame.Infrastructure, "no space left")}
	if _, err := b.Observe(t.Context(), metric("c1", "t1", 0)); blame.Of(err) != blame.Infrastructure {
		t.Errorf("error %v", err)
	}
	if len(b.builder.built) != maxAttempts || len(b.launcher.waited) != maxAttempts-1 {
		t.Errorf("built %d times, waited %v", len(b.builder.built), b.launcher.waited)
	}
}
