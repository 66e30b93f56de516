package judge

import (
	"strings"
	"testing"

	"bisectd/bisect"
	"bisectd/workloads"
)

// TestCounterfactuals: what a variant of the pair does can change the class,
// and is always told.
func TestCounterfactuals(t *testing.T) {
	const higher = workloads.Higher
	sound := figures{value: 100, better: higher}
	shift := func(ops float64) *bisect.Shift {
		s := (&Judge{Metric: "ops", MinEffect: 0.03}).Shift(sound.observations(), figures{value: ops, better: higher}.observations())
		return &s
	}
	tests := []struct {
		name     string
		old, new figures
		given    func(*bisect.Evidence)
		want     bisect.Class
		reason   string
	}{
		{"the setting is why", figures{value: 100, better: higher, preempt: "full"}, figures{value: 60, better: higher, preempt: "lazy"},
			func(e *bisect.Evidence) { e.Pinned = shift(100.1) }, bisect.EnvironmentShift, "made equal ops does not move"},
		{"the setting is not why", figures{value: 100, better: higher, preempt: "full"}, figures{value: 60, better: higher, preempt: "lazy"},
			func(e *bisect.Evidence) { e.Pinned = shift(62) }, bisect.Regression, "made equal ops moves"},
		{"the counterpart stands still", figures{value: 100, better: higher, stale: true}, figures{value: 60, better: higher},
			func(e *bisect.Evidence) { e.Honest = shift(100.1) }, bisect.BehaviourChange, "counterpart, which relies on nothing unspecified, ops does not move"},
		{"a regression beside the change of behaviour", figures{value: 100, better: higher, stale: true}, figures{value: 60, better: higher},
			func(e *bisect.Evidence) { e.Honest = shift(80) }, bisect.Regression, "worse off too"},
		{"a gain beside the change of behaviour", figures{value: 100, better: higher, stale: true}, figures{value: 60, better: higher},
			func(e *bisect.Evidence) { e.Honest = shift(120) }, bisect.BehaviourChange, "ops moves"},
		{"a revert that helps", sound, figures{value: 60, better: higher},
			func(e *bisect.Evidence) { e.Reverted = shift(100.1) }, bisect.Regression, "reverted at the bad end ops does not move"},
		{"alignment that does not help", sound, figures{value: 90, better: higher},
			func(e *bisect.Evidence) { e.Padded = shift(91) }, bisect.Regression, "every function aligned ops moves"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := &Judge{Metric: "ops", MinEffect: 0.03, Error: 0.05, Exercises: []string{"stale-signal"}}
			old, new := tt.old.observations(), tt.new.observations()
			e := bisect.Evidence{VCPUs: 1, Old: old, New: new, Shift: j.Shift(old, new)}
			tt.given(&e)
			got := j.Classify(e)
			t.Logf("%s:\n\t%s", got.Class, strings.Join(got.Reasons, "\n\t"))
			if got.Class != tt.want || !strings.Contains(strings.Join(got.Reasons, "\n"), tt.reason) {
				t.Errorf("class %s, want %s for %q", got.Class, tt.want, tt.reason)
			}
		})
	}
}
