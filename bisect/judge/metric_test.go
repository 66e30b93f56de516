package judge

import (
	"math"
	"testing"

	"bisectd/bisect"
	"bisectd/workloads"
)

// boots makes one metric boot a value.
func boots(values ...float64) bisect.Observations {
	var obs bisect.Observations
	for _, v := range values {
		obs = append(obs, bisect.Observation{Ending: bisect.Completed, Profile: bisect.MetricBoot,
			Samples: []workloads.Sample{{Metrics: []workloads.Metric{{Name: "ops", Unit: "ops/s", Better: workloads.Higher, Value: v}}}}})
	}
	return obs
}

func rules() *Judge {
	return &Judge{Metric: "ops", MinEffect: 0.05, Error: 0.05, Steps: 5, Exercises: []string{"stale-signal", "posix-timer"}}
}

func TestShift(t *testing.T) {
	tests := []struct {
		name     string
		old, new []float64
		want     bisect.Change
		effect   float64
	}{
		{"clear fall", []float64{100, 101, 99}, []float64{75, 76, 74}, bisect.Moved, -0.25},
		{"clear rise", []float64{100, 101, 99}, []float64{150, 149, 152}, bisect.Moved, 0.50},
		{"identical boots prove no precision", []float64{100, 100, 100}, []float64{94, 94, 94}, bisect.Moved, -0.06},
		{"nothing", []float64{100, 101, 99, 100}, []float64{100, 99, 101, 100}, bisect.Same, 0},
		{"real but below the least effect", []float64{100, 100.1, 99.9, 100}, []float64{97, 97.1, 96.9, 97}, bisect.Same, -0.03},
		{"too noisy", []float64{100, 130, 80}, []float64{75, 110, 60}, bisect.Unclear, -0.22},
		{"one boot a side", []float64{100}, []float64{50}, bisect.Unclear, 0},
		{"none", nil, nil, bisect.Unclear, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := rules().Shift(boots(tt.old...), boots(tt.new...))
			if got.Decision != tt.want {
				t.Errorf("decision = %s (%s), want %s", got.Decision, percent(got), tt.want)
			}
			if math.Abs(got.Effect-tt.effect) > 0.02 {
				t.Errorf("effect = %.3f, want about %.2f", got.Effect, tt.effect)
			}
		})
	}
}

func TestShiftTakesTheMedianOfABoot(t *testing.T) {
	one := boots(100)
	one[0].Samples = append(one[0].Samples, boots(3)[0].Samples[0], boots(101)[0].Samples[0])
	if got, _ := values(one, "ops"); len(got) != 1 || got[0] != 100 {
		t.Errorf("values = %v, want the boot's median 100", got)
	}
}

func TestPlaceMetric(t *testing.T) {
	old, new := boots(100, 102, 98), boots(75, 76, 74)
	if got := rules().Place(bisect.Signal{Kind: bisect.MetricSignal}, boots(90, 110, 100), new, boots(20, 20, 20)); got.Verdict != bisect.New {
		t.Errorf("far beyond the bad end of two that differ in spread: %s (%s), want new", got.Verdict, got.Detail)
	}
	tests := []struct {
		name   string
		commit []float64
		want   bisect.Verdict
	}{
		{"one boot is never enough", []float64{75}, bisect.Unknown},
		{"new", []float64{75, 75.5}, bisect.New},
		{"old", []float64{101, 99}, bisect.Old},
		{"one outlier does not decide", []float64{100, 75}, bisect.Unknown},
		{"an outlier is outvoted", []float64{40, 100, 101, 99}, bisect.Old},
		{"beyond the bad end", []float64{20, 20}, bisect.New},
		{"in between", []float64{86.6, 86.6, 86.6}, bisect.Unknown},
	}
	s := bisect.Signal{Kind: bisect.MetricSignal, Name: "ops"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := rules().Place(s, old, new, boots(tt.commit...)); got.Verdict != tt.want {
				t.Errorf("Place() = %s (%s), want %s", got.Verdict, got.Detail, tt.want)
			}
		})
	}
}
