package bisect_test

import (
	"strings"
	"testing"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/judge"
	"bisectd/blame"
)

func TestSingle(t *testing.T) {
	moves := lab{slow: 20, factor: 0.75, noise: 0.01, ending: map[int]bisect.Ending{7: bisect.NoBuild, 9: bisect.NoBoot}}
	tests := []struct {
		name   string
		lab    lab
		commit string
		want   bisect.Verdict
		by     bisect.SignalKind
	}{
		{"before the change", moves, "main~13", bisect.Old, bisect.MetricSignal},
		{"the change", moves, "main~12", bisect.New, bisect.MetricSignal},
		{"behind it", moves, "main~2", bisect.New, bisect.MetricSignal},
		{"the good end", moves, "main~32", bisect.Old, bisect.MetricSignal},
		{"the bad end", moves, "main", bisect.New, bisect.MetricSignal},
		{"does not build", moves, "main~25", bisect.Skip, bisect.MetricSignal},
		{"does not boot", moves, "main~23", bisect.Skip, bisect.MetricSignal},
		{"by a marker", lab{stale: 9, slow: 9, factor: 0.7, noise: 0.01}, "main~24", bisect.Old, bisect.MarkerSignal},
		{"by a crash", lab{crashFrom: 17}, "main~15", bisect.New, bisect.CrashSignal},
	}
	repo := linear(t, 33)
	r, err := history.Open(t.Context(), repo, []string{"main~32"}, "main")
	if err != nil {
		t.Fatal(err)
	}
	engine := func(l *lab) *bisect.Engine {
		return &bisect.Engine{Range: r, Tester: l, Job: bisect.Job{Machine: bisect.Machine{VCPUs: []int{1}}},
			Judge: &judge.Judge{Metric: "ops", MinEffect: 0.05, Error: 0.05, Steps: 5, Exercises: []string{"stale-signal"}}}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := history.Lookup(t.Context(), repo, tt.commit)
			if err != nil {
				t.Fatal(err)
			}
			got, err := engine(&tt.lab).Test(t.Context(), c)
			if err != nil || got.Verdict != tt.want || got.Commit.ID != c.ID || got.Detail == "" ||
				got.Signal.Kind != tt.by {
				t.Errorf("%s is %s by %s: %s, %v; want %s by %s", got.Commit, got.Verdict, got.Signal.Kind, got.Detail, err,
					tt.want, tt.by)
			}
		})
	}
	_, err = engine(&lab{noise: 0.01}).Test(t.Context(), r.Bad())
	if err == nil || blame.Of(err) != blame.User || !strings.Contains(err.Error(), "do not differ") {
		t.Errorf("ends that do not differ: %v", err)
	}
}
