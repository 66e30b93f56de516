package judge

import (
	"os"
	"slices"
	"strings"
	"testing"

	"bisectd/bisect"
	"bisectd/blame"
	"bisectd/workloads"
)

// TestLawsAreDocumented: a reader finds each law, and its bound, where the
// reports send him.
func TestLawsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range Laws() {
		name := l.Name
		for _, suffix := range []string{"-late", "-early"} {
			if strings.HasSuffix(name, suffix) {
				name = "INTERFACE" + suffix
			}
		}
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s %s is not in docs/semantics.md", l.ID, l.Name)
		}
		if l.Formula == "" || l.Source == "" || l.Meaning == "" {
			t.Errorf("%s %s lacks formula, source or meaning: %+v", l.ID, l.Name, l)
		}
	}
}

func TestOverrides(t *testing.T) {
	half := 0.5
	rules := Overrides{lawSteal: {Off: true}, lawDrift: {Bound: &half}, "nanosleep-late": {Off: true}}
	if err := rules.Check(); err != nil {
		t.Error(err)
	}
	if err := (Overrides{"nanosleep-latte": {Off: true}}).Check(); blame.Of(err) != blame.User ||
		!strings.Contains(err.Error(), "nanosleep-late") {
		t.Errorf("got %v", err)
	}
	f := bisect.Fingerprint{Clocksource: "tsc", HighRes: true, Resolution: 1, CPUs: 1, Steal: 0.9, Drift: 0.4}
	if why := rules.Gate(f, 1); why != "" {
		t.Errorf("void: %s", why)
	}
	f.Drift = 0.6
	if why := rules.Gate(f, 1); why == "" {
		t.Error("a drift beyond the job's bound passes")
	}
	want := []string{"clock-drift has the bound 0.5 by the job", "nanosleep-late is turned off by the job",
		"steal is turned off by the job"}
	if got := rules.Describe(); !slices.Equal(got, want) {
		t.Errorf("described as %q", got)
	}
}

// TestOverriddenInvariant: what is off is not measured, and what has another
// bound is held against that.
func TestOverriddenInvariant(t *testing.T) {
	sound := figures{value: 100, better: workloads.Higher}
	late := figures{value: 100, better: workloads.Higher, grid: true}
	old, new := sound.observations(), late.observations()
	j := &Judge{Metric: "ops", MinEffect: 0.05, Error: 0.05, Exercises: []string{"nanosleep"}}
	classify := func() bisect.Finding {
		return j.Classify(bisect.Evidence{Old: old, New: new, Shift: j.Shift(old, new)})
	}
	if got := classify(); got.Class != bisect.Regression {
		t.Errorf("without overrides: %s", got.Class)
	}
	wide := 3e8
	for _, o := range []bisect.Override{{Off: true}, {Bound: &wide}} {
		j.Checks = Overrides{"nanosleep-late": o}
		got := classify()
		if got.Class != bisect.NotReproduced || !strings.Contains(strings.Join(got.Reasons, " "), "by the job") {
			t.Errorf("%+v: %s %q", o, got.Class, got.Reasons)
		}
	}
	if len(j.Signals(old, new)) != 0 {
		t.Errorf("signals: %+v", j.Signals(old, new))
	}
}
