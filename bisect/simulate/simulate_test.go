package simulate

import (
	"strings"
	"testing"
)

// TestBisectd plays few bisections: enough to see a policy that is broken,
// too few to measure one.
func TestBisectd(t *testing.T) {
	const plays = 12
	for _, c := range Cells() {
		if c.Goal.Right == 0 || testing.Short() && c.World.Distance < 2.5 && c.World.Crash == 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			s, err := Run(t.Context(), c.World, Bisectd, plays, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if s.Right < plays*3/4 || s.Wrong > 1 {
				t.Errorf("%d of %d right, %d wrong", s.Right, plays, s.Wrong)
			}
		})
	}
}

// TestFixedRepeats holds the comparison to what is known of it: with levels
// far apart one boot a commit is enough, with near ones it is not.
func TestFixedRepeats(t *testing.T) {
	far := World{Commits: 1024, Distance: 20, BootSD: 0.03, Runs: 1}
	near := far
	near.Distance = 1
	for _, tt := range []struct {
		world       World
		least, most int
	}{{far, 20, 20}, {near, 0, 5}} {
		s, err := Run(t.Context(), tt.world, FixedRepeats(1), 20, 1)
		if err != nil {
			t.Fatal(err)
		}
		if s.Right < tt.least || s.Right > tt.most {
			t.Errorf("distance %g: %d of 20 right, want %d to %d", tt.world.Distance, s.Right, tt.least, tt.most)
		}
	}
}

// TestPlaysRepeat makes the same world twice.
func TestPlaysRepeat(t *testing.T) {
	w := World{Commits: 200, Distance: 3, BootSD: 0.03, RunSD: 0.01, Runs: 3, Branches: 0.5, Broken: 0.2}
	a, err := Run(t.Context(), w, Bisectd, 8, 7)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Run(t.Context(), w, Bisectd, 8, 7)
	if err != nil {
		t.Fatal(err)
	}
	if a.Right != b.Right || a.Boots != b.Boots || a.Builds != b.Builds {
		t.Errorf("%+v, then %+v", a, b)
	}
}

func TestGoal(t *testing.T) {
	s := Score{Plays: 100, Right: 90, Wrong: 2, Boots: 50, Builds: 10}
	if why := (Goal{Right: 0.9, Wrong: 0.02, Boots: 50, Builds: 10}).misses(s); why != "" {
		t.Errorf("missed: %s", why)
	}
	if why := (Goal{Right: 0.95, Wrong: 0.01, Boots: 40}).misses(s); strings.Count(why, ",") != 2 {
		t.Errorf("missed: %q, want three bounds", why)
	}
}
