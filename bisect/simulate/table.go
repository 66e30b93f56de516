package simulate

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Cell is one line of the table: a world and what has to be reached in it.
type Cell struct {
	Name  string
	World World
	Goal  Goal
	Fixed []int // numbers of boots of the fixed policies to compare with
}

// Goal bounds a Score. A zero is no bound.
type Goal struct {
	Right, Wrong, Differs float64 // least share right, most wrong, most that claim a difference
	Boots, Builds         float64 // at most, on average
}

// misses says which bounds a score misses.
func (g Goal) misses(s Score) string {
	var missed []string
	check := func(bound float64, bad bool, what string) {
		if bound > 0 && bad {
			missed = append(missed, what)
		}
	}
	check(g.Right, s.share(s.Right) < g.Right, fmt.Sprintf("right < %g", g.Right))
	check(g.Wrong, s.share(s.Wrong) > g.Wrong, fmt.Sprintf("wrong > %g", g.Wrong))
	check(g.Differs, s.share(s.Differs) > g.Differs, fmt.Sprintf("differs > %g", g.Differs))
	check(g.Boots, s.Boots > g.Boots, fmt.Sprintf("boots > %g", g.Boots))
	check(g.Builds, s.Builds > g.Builds, fmt.Sprintf("builds > %g", g.Builds))
	return strings.Join(missed, ", ")
}

// Cells are the worlds of the table. Boots scatter by 3 % and executions
// within a boot by 1 %, as on a quiet machine; the distance of the levels is
// given in standard deviations of a boot.
func Cells() []Cell {
	world := func(distance float64, change func(*World)) World {
		w := World{Commits: 4096, Distance: distance, BootSD: 0.03, RunSD: 0.01, Runs: 3}
		if change != nil {
			change(&w)
		}
		return w
	}
	outliers := func(w *World) { w.Outliers = 0.05 }
	crash := func(p float64) World { return World{Commits: 1024, BootSD: 0.03, RunSD: 0.01, Runs: 3, Crash: p} }
	return []Cell{
		{"equal ends", world(0, nil), Goal{Differs: 0.05, Wrong: 0.01}, nil},
		{"1.9 sd", world(1.9, nil), Goal{Right: 0.97, Wrong: 0.005, Boots: 100, Builds: 15}, []int{1, 3, 5}},
		{"2.9 sd", world(2.9, nil), Goal{Right: 0.99, Wrong: 0.005}, []int{1, 3, 5}},
		{"4.9 sd", world(4.9, nil), Goal{Right: 0.99, Wrong: 0.005}, []int{1, 3, 5}},
		{"9.7 sd", world(9.7, nil), Goal{Right: 0.99, Wrong: 0.005}, []int{1, 3, 5}},
		{"1.9 sd, 5 % outliers", world(1.9, outliers), Goal{Wrong: 0.01}, []int{5}},
		{"2.9 sd, 5 % outliers", world(2.9, outliers), Goal{Right: 0.97, Wrong: 0.01}, []int{3, 5}},
		{"4.2 sd, two modes 4.2 sd apart", world(4.2, func(w *World) { w.Modes, w.Gap = 0.3, 4.2 }),
			Goal{Right: 0.95, Wrong: 0.02}, []int{3, 5}},
		{"2.9 sd, drift of 2 sd per 100 boots", world(2.9, func(w *World) { w.Drift = 2 }),
			Goal{Right: 0.9, Wrong: 0.02}, []int{3, 5}},
		{"2.9 sd, merges", world(2.9, func(w *World) { w.Branches = 0.5 }), Goal{Right: 0.99, Wrong: 0.005}, []int{3}},
		{"2.9 sd, 20 % do not build", world(2.9, func(w *World) { w.Broken = 0.2 }),
			Goal{Right: 0.97, Wrong: 0.005}, []int{3}},
		{"crash in every boot", crash(1), Goal{Right: 0.99}, []int{1}},
		{"crash in 3 of 10 boots", crash(0.3), Goal{Right: 0.95}, []int{1, 5, 15, 25}},
	}
}

// Table plays every cell and writes one line for each policy, bisectd's first.
// It returns how many goals were missed.
func Table(ctx context.Context, w io.Writer, plays int, seed uint64) (missed int, err error) {
	const line = "%-38s %-10s %7s %7s %8s %7s %7s  %s\n"
	if _, err := fmt.Fprintf(w, line, "world", "policy", "right", "wrong", "unknown", "boots", "builds", ""); err != nil {
		return 0, err
	}
	cells := Cells()
	for _, c := range cells {
		policies := []string{"bisectd"}
		for _, n := range c.Fixed {
			policies = append(policies, fmt.Sprint(n, " each"))
		}
		for i, name := range policies {
			policy := Policy(Bisectd)
			if i > 0 {
				policy = FixedRepeats(c.Fixed[i-1])
			}
			s, err := Run(ctx, c.World, policy, plays, seed)
			if err != nil {
				return missed, err
			}
			note := ""
			if i == 0 {
				if note = c.Goal.misses(s); note != "" {
					missed++
					note = "MISSED: " + note
				} else if c.World.Distance == 0 && c.World.Crash == 0 {
					note = fmt.Sprintf("%.3f call them different", s.share(s.Differs))
				}
			}
			if _, err := fmt.Fprintf(w, line, c.Name, name, decimal(s.share(s.Right)), decimal(s.share(s.Wrong)),
				decimal(s.share(s.Unknown)), fmt.Sprintf("%.1f", s.Boots), fmt.Sprintf("%.1f", s.Builds), note); err != nil {
				return missed, err
			}
		}
	}
	_, err = fmt.Fprintf(w, "%d of %d goals reached, %d bisections a line\n", len(cells)-missed, len(cells), plays)
	return missed, err
}

func decimal(x float64) string { return fmt.Sprintf("%.3f", x) }
