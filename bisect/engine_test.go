package bisect_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/judge"
	"bisectd/blame"
	"bisectd/workloads"
)

// lab is a scripted Tester over a linear history of numbered commits. Each
// fate names the first commit from which on something holds.
type lab struct {
	stale, grid, slow int     // marker gone, sleepers late, metric changed; 0: never
	factor            float64 // of the metric from slow on
	noise             float64 // standard deviation of a boot
	ending            map[int]bisect.Ending
	crashFrom         int
	crashOdd          bool    // in boots with an odd ordinal only
	early             float64 // factor of the metric from stale on
	hidden            int     // the counterpart's metric falls by a third
	layout            bool    // aligned functions undo what slow does
	asked             map[string]int
}

func (l *lab) Observe(_ context.Context, b bisect.Boot) (bisect.Observation, error) {
	var n int
	if _, err := fmt.Sscanf(b.Commit.Subject, "commit %d", &n); err != nil {
		return bisect.Observation{}, err
	}
	if l.asked == nil {
		l.asked = map[string]int{}
	}
	l.asked[fmt.Sprint(n, b.VCPUs, b.Profile, b.Variant, b.Ordinal)]++
	o := bisect.Observation{Commit: b.Commit.ID, VCPUs: b.VCPUs, Profile: b.Profile, Ordinal: b.Ordinal, Ending: bisect.Completed}
	if e, ok := l.ending[n]; ok {
		o.Ending, o.Detail = e, "scripted"
		return o, nil
	}
	if from(l.crashFrom, n) && (!l.crashOdd || b.Ordinal%2 == 1) && b.Profile != bisect.ProbeBoot {
		o.Ending, o.Detail = bisect.Crashed, "Kernel panic"
		return o, nil
	}
	if b.Profile != bisect.MetricBoot {
		o.Probe = l.probe(n)
	}
	if b.Profile == bisect.TraceBoot {
		o.Samples = []workloads.Sample{{Ops: 100}}
		o.Tally = &workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{"posix_timer_fn": {Start: 100, Expire: 100}}}
	}
	if b.Profile == bisect.MetricBoot {
		o.Samples = []workloads.Sample{{Metrics: []workloads.Metric{{Name: "ops", Unit: "ops/s", Better: workloads.Higher,
			Value: l.value(n, b)}}}}
	}
	if b.Profile == bisect.CounterpartBoot {
		v := 500.0
		if from(l.hidden, n) {
			v = 333
		}
		o.Samples = []workloads.Sample{{Metrics: []workloads.Metric{{Name: "ticks", Unit: "ticks/s", Better: workloads.Higher,
			Value: v}}}}
	}
	return o, nil
}

func from(first, n int) bool { return first > 0 && n >= first }

func (l *lab) probe(n int) workloads.ProbeRecord {
	late := workloads.Invariant{Name: "nanosleep-late", Result: workloads.Pass, Detail: "p50 0.2 ms"}
	if from(l.grid, n) {
		late.Result, late.Detail = workloads.Fail, "p50 250 ms"
	}
	return workloads.ProbeRecord{Invariants: []workloads.Invariant{late},
		Markers: []workloads.Marker{{Name: "stale-signal", Measured: true, Clear: true, Seen: !from(l.stale, n)}}}
}

func (l *lab) value(n int, b bisect.Boot) float64 {
	v := 1000.0
	if from(l.slow, n) && (!l.layout || b.Variant != bisect.Padded) {
		v *= l.factor
	}
	if from(l.stale, n) && l.early > 0 {
		v *= l.early
	}
	h := fnv.New64a()
	fmt.Fprint(h, n, b.VCPUs, b.Profile, b.Ordinal)
	return v * (1 + l.noise*rand.New(rand.NewPCG(h.Sum64(), 1)).NormFloat64())
}

// linear makes a repository of n commits on a line, "commit 0" to "commit n-1".
func linear(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repo")
	var stream strings.Builder
	for i := range n {
		message := fmt.Sprintf("commit %d", i)
		fmt.Fprintf(&stream, "commit refs/heads/main\nmark :%d\ncommitter a <a@b.invalid> %d +0000\ndata %d\n%s\n",
			i+1, 1700000000+i, len(message), message)
		fmt.Fprintf(&stream, "M 644 inline f\ndata %d\n%d\n", len(fmt.Sprint(i)), i)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main", dir}, {"-C", dir, "fast-import", "--quiet"}} {
		cmd := exec.Command("git", args...)
		cmd.Stdin = strings.NewReader(stream.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func answer(t *testing.T, l *lab, vcpus ...int) (bisect.Result, error) {
	t.Helper()
	return walkOn(t, bisect.AutoSignal, l, vcpus...)
}

// walkOn answers a job that names its signal.
func walkOn(t *testing.T, signal string, l *lab, vcpus ...int) (bisect.Result, error) {
	t.Helper()
	const commits = 33
	r, err := history.Open(t.Context(), linear(t, commits), []string{fmt.Sprintf("main~%d", commits-1)}, "main")
	if err != nil {
		t.Fatal(err)
	}
	job := bisect.Job{Machine: bisect.Machine{VCPUs: vcpus}, Judge: bisect.Rules{Metric: "ops",
		MinEffect: 0.05, Error: 0.05, Signal: signal}}
	e := bisect.Engine{Job: job, Range: r, Tester: l,
		Judge: &judge.Judge{Metric: "ops", MinEffect: 0.05, Error: 0.05, Steps: 5, Exercises: []string{"stale-signal", "nanosleep"}},
		Counterpart: &bisect.Counterpart{Workload: "honest", Metric: "ticks",
			Judge: &judge.Judge{Metric: "ticks", MinEffect: 0.05, Error: 0.05, Steps: 5}}}
	return e.Run(t.Context())
}

func TestEngine(t *testing.T) {
	tests := []struct {
		name  string
		lab   lab
		class bisect.Class
		first string // subject
		guide string
	}{
		{"marker and metric move together", lab{stale: 20, slow: 20, factor: 0.75, noise: 0.02}, bisect.BehaviourChange, "commit 20", "stale-signal"},
		{"invariant breaks, metric still", lab{grid: 7, noise: 0.02}, bisect.Regression, "commit 7", "nanosleep-late"},
		{"metric alone, better", lab{slow: 13, factor: 1.5, noise: 0.03}, bisect.Improvement, "commit 13", "ops"},
		{"metric alone, worse", lab{slow: 32, factor: 0.8, noise: 0.02}, bisect.Regression, "commit 32", "ops"},
		{"nothing moves", lab{noise: 0.01}, bisect.NotReproduced, "", ""},
		{"too noisy to tell", lab{noise: 0.3}, bisect.Inconclusive, "", ""},
		{"marker alone moves", lab{stale: 9, noise: 0.01}, bisect.NotReproduced, "", ""},
		{"marker is another commit than the metric", lab{stale: 9, slow: 21, factor: 0.7, noise: 0.02}, bisect.Regression, "commit 21", "ops"},
		{"bad end crashes", lab{crashFrom: 17}, bisect.Regression, "commit 17", "crash"},
		{"untestable commits elsewhere", lab{stale: 20, slow: 20, factor: 0.75, noise: 0.02,
			ending: map[int]bisect.Ending{16: bisect.NoBuild, 17: bisect.NoBuild, 24: bisect.NoBoot}}, bisect.BehaviourChange, "commit 20", "stale-signal"},
		{"untestable commit before the change", lab{stale: 20, slow: 20, factor: 0.75, noise: 0.02,
			ending: map[int]bisect.Ending{19: bisect.NoBoot}}, bisect.Inconclusive, "", "ops"},
		{"bad end crashes now and then", lab{crashFrom: 17, crashOdd: true}, bisect.Inconclusive, "", ""},
		{"marker moves where the metric moves the other way", lab{stale: 9, slow: 21, factor: 0.7, noise: 0.01, early: 1.08},
			bisect.Regression, "commit 21", "ops"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := answer(t, &tt.lab, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got.Class != tt.class {
				t.Errorf("class = %s (%v), want %s", got.Class, got.Reasons, tt.class)
			}
			if first := subjectOf(got.FirstNew); first != tt.first {
				t.Errorf("first new commit = %q, want %q; tests: %v", first, tt.first, got.Tests)
			}
			if got.Guide != nil && got.Guide.Name != tt.guide || got.Guide == nil && tt.guide != "" {
				t.Errorf("guide = %v, want %s", got.Guide, tt.guide)
			}
			for boot, n := range tt.lab.asked {
				if n > 1 {
					t.Errorf("boot %s was asked for %d times", boot, n)
				}
			}
		})
	}
}

// TestEngineObeysSignal walks on what the job names, to the same commit.
func TestEngineObeysSignal(t *testing.T) {
	moves := lab{stale: 20, slow: 20, factor: 0.75, noise: 0.02}
	for signal, l := range map[string]lab{
		"metric":       moves,
		"stale-signal": moves,
		"crash":        {crashFrom: 20, crashOdd: true, noise: 0.01},
	} {
		got, err := walkOn(t, signal, &l, 1)
		if err != nil {
			t.Fatal(err)
		}
		if subjectOf(got.FirstNew) != "commit 20" || got.Guide.Name != signal && string(got.Guide.Kind) != signal {
			t.Errorf("%s: %q by %+v: %v", signal, subjectOf(got.FirstNew), got.Guide, got.Reasons)
		}
	}
	got, err := walkOn(t, "nanosleep-late", &moves, 1)
	if err != nil || got.FirstNew != nil {
		t.Errorf("a signal in which the ends do not differ led to %q, %v", subjectOf(got.FirstNew), err)
	}
}

// TestEngineFindsEveryChange has two commits share the difference of the ends.
func TestEngineFindsEveryChange(t *testing.T) {
	got, err := answer(t, &lab{stale: 8, early: 0.85, slow: 24, factor: 0.7, noise: 0.01}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, c := range got.Changes {
		found = append(found, fmt.Sprintf("%s %s %.0f/4", c.FirstNew.Subject, c.Class, 4*c.Share))
	}
	if want := []string{"commit 24 regression 3/4", "commit 8 behaviour-change 1/4"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q; %v", found, want, got.Reasons)
	}
	if subjectOf(got.FirstNew) != "commit 24" || got.Class != bisect.Regression {
		t.Errorf("answer: %s %q", got.Class, subjectOf(got.FirstNew))
	}
}

// TestEngineFindsBrokenPromise has a promise broken by one commit and the
// metric improved by another: who is worse off comes first.
func TestEngineFindsBrokenPromise(t *testing.T) {
	got, err := answer(t, &lab{grid: 8, slow: 24, factor: 1.5, noise: 0.01}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Changes) != 2 || got.Class != bisect.Regression || subjectOf(got.FirstNew) != "commit 8" ||
		got.Changes[1].FirstNew.Subject != "commit 24" || got.Changes[1].Class != bisect.Improvement {
		t.Errorf("answer: %s %q; changes: %+v", got.Class, subjectOf(got.FirstNew), got.Changes)
	}
}

func subjectOf(c *bisect.Commit) string {
	if c == nil {
		return ""
	}
	return c.Subject
}

func TestEngineConfirmsAtEveryCount(t *testing.T) {
	got, err := answer(t, &lab{stale: 20, slow: 20, factor: 0.75, noise: 0.02}, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, f := range got.Findings {
		counts = append(counts, f.VCPUs)
		if f.Class != bisect.BehaviourChange {
			t.Errorf("class at %d vCPU = %s, want %s", f.VCPUs, f.Class, bisect.BehaviourChange)
		}
	}
	if !slices.Equal(counts, []int{1, 2}) {
		t.Errorf("findings at %v vCPU, want 1 and 2", counts)
	}
}

func TestEngineNamesSuspects(t *testing.T) {
	got, err := answer(t, &lab{grid: 20, ending: map[int]bisect.Ending{18: bisect.NoBuild, 19: bisect.NoBuild}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var suspects []string
	for _, c := range got.Suspects {
		suspects = append(suspects, c.Subject)
	}
	if want := []string{"commit 18", "commit 19", "commit 20"}; !slices.Equal(suspects, want) {
		t.Errorf("suspects = %q, want %q", suspects, want)
	}
}

func TestEngineRefusesEnds(t *testing.T) {
	for _, ending := range []bisect.Ending{bisect.NoBuild, bisect.NoBoot} {
		_, err := answer(t, &lab{ending: map[int]bisect.Ending{0: ending}}, 1)
		if err == nil || blame.Of(err) != blame.User {
			t.Errorf("good end with %s: error %v, want the user's blame", ending, err)
		}
	}
}

// TestEngineLooksBehindTheChange has the metric change its meaning at one
// commit and users who rely on nothing unspecified worse off from another on.
func TestEngineLooksBehindTheChange(t *testing.T) {
	for name, tt := range map[string]struct {
		hidden int
		want   []string
		class  bisect.Class
	}{
		"nothing hidden":    {0, []string{"commit 20 behaviour-change"}, bisect.BehaviourChange},
		"a hidden slowdown": {11, []string{"commit 11 regression", "commit 20 behaviour-change"}, bisect.Regression},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lab{stale: 20, slow: 20, factor: 0.75, noise: 0.01, hidden: tt.hidden}
			got, err := walkOn(t, "", l, 1)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, c := range got.Changes {
				found = append(found, c.FirstNew.Subject+" "+string(c.Class))
			}
			if !slices.Equal(found, tt.want) || got.Class != tt.class || got.Rebased == nil {
				t.Errorf("found %q (%s), want %q (%s); rebased %v: %v", found, got.Class, tt.want, tt.class, got.Rebased, got.Reasons)
			}
		})
	}
}

// TestEngineDoubtsSmallShifts has the pair of a small shift built again.
func TestEngineDoubtsSmallShifts(t *testing.T) {
	for name, tt := range map[string]struct {
		lab  lab
		want bisect.Class
	}{
		"layout":      {lab{slow: 20, factor: 0.9, noise: 0.005, layout: true}, bisect.Layout},
		"a true cost": {lab{slow: 20, factor: 0.9, noise: 0.005}, bisect.Regression},
		"a large one": {lab{slow: 20, factor: 0.7, noise: 0.005, layout: true}, bisect.Regression},
	} {
		e := bisect.Engine{Tester: &tt.lab, Job: bisect.Job{Machine: bisect.Machine{VCPUs: []int{1}},
			Verify: bisect.Checks{Layout: true}}, Judge: &judge.Judge{Metric: "ops", MinEffect: 0.05, Error: 0.05}}
		got, err := e.Compare(t.Context(), bisect.Commit{ID: "0", Subject: "commit 0"}, bisect.Commit{ID: "20", Subject: "commit 20"})
		if err != nil || got.Class != tt.want {
			t.Errorf("%s: %s (%v), want %s; %v", name, got.Class, got.Reasons, tt.want, err)
		}
	}
}

// TestCompare needs no range and names no commit.
func TestCompare(t *testing.T) {
	for name, tt := range map[string]struct {
		lab  lab
		want bisect.Class
	}{
		"same":            {lab{noise: 0.01}, bisect.NotReproduced},
		"slower":          {lab{slow: 1, factor: 0.8, noise: 0.01}, bisect.Regression},
		"another meaning": {lab{slow: 1, stale: 1, factor: 0.8, noise: 0.01}, bisect.BehaviourChange},
		"crashes":         {lab{crashFrom: 1}, bisect.Regression},
	} {
		e := bisect.Engine{Job: bisect.Job{Machine: bisect.Machine{VCPUs: []int{1, 2}}}, Tester: &tt.lab,
			Judge: &judge.Judge{Metric: "ops", MinEffect: 0.05, Error: 0.05, Exercises: []string{"stale-signal", "nanosleep"}},
			Counterpart: &bisect.Counterpart{Workload: "honest", Metric: "ticks",
				Judge: &judge.Judge{Metric: "ticks", MinEffect: 0.05, Error: 0.05}}}
		got, err := e.Compare(t.Context(), bisect.Commit{ID: "0", Subject: "commit 0"}, bisect.Commit{ID: "1", Subject: "commit 1"})
		if err != nil || got.Class != tt.want || len(got.Findings) != 2 {
			t.Errorf("%s: %s at %d counts (%v), want %s; %v", name, got.Class, len(got.Findings), got.Reasons, tt.want, err)
		}
		if tt.want == bisect.BehaviourChange && (got.Rebased == nil || got.Rebased.Ends.Decision != bisect.Same) {
			t.Errorf("%s: rebased %+v", name, got.Rebased)
		}
	}
}
