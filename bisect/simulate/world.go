// Package simulate plays bisections in a made-up world, to measure how often
// the engine and the judge name the right commit and what that costs. The
// policy is the real one: only the history and the boots are made up.
package simulate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"bisectd/bisect"
	"bisectd/workloads"
)

// metric is the name of the number that the made-up workload reports.
const metric = "ops"

// World is a range of commits with one change, and how boots scatter in it.
type World struct {
	Commits  int     // candidates
	Branches float64 // share of the commits that are on merged side branches
	Distance float64 // of the two levels, in standard deviations of a boot; 0: nothing changes
	BootSD   float64 // standard deviation between boots, of the logarithm
	RunSD    float64 // between executions within a boot
	Runs     int     // executions a boot
	Outliers float64 // share of boots that the host slows down by five standard deviations and more
	Modes    float64 // share of boots in a second, slower mode
	Gap      float64 // distance of the modes, in standard deviations of a boot
	Drift    float64 // of the host, in standard deviations per hundred boots
	Broken   float64 // share of commits that do not build, in clusters
	Crash    float64 // chance that a boot of a new commit crashes; 0: the change is the metric's
}

// play is one bisection in a world.
type play struct {
	World
	random  *rand.Rand
	good    bisect.Commit
	commits []bisect.Commit
	culprit int
	after   []bool // commits that have the change
	broken  []bool
	index   map[string]int

	boots  int // made, of kernels that build
	builds map[string]bool
}

// newPlay draws a history and its culprit.
func (w World) newPlay(seed uint64) *play {
	p := &play{World: w, random: rand.New(rand.NewPCG(seed, uint64(w.Commits))),
		index: map[string]int{}, builds: map[string]bool{}}
	p.good = bisect.Commit{ID: id(0), Tree: id(0), Subject: "good"}
	p.grow()
	p.culprit = p.random.IntN(w.Commits)
	p.after = make([]bool, w.Commits)
	for i := range p.after {
		p.after[i] = i == p.culprit
		for _, parent := range p.commits[i].Parents {
			if k, ok := p.index[parent]; ok && p.after[k] {
				p.after[i] = true
			}
		}
	}
	p.after[w.Commits-1] = true
	p.breakClusters()
	return p
}

func id(n int) string { return fmt.Sprintf("%040x", n) }

// grow makes the commits, parents first: a main line from which side branches
// leave and come back by merges.
func (p *play) grow() {
	main, branch := p.good.ID, ""
	left := 0 // commits that the side branch still gets
	for i := range p.Commits {
		c := bisect.Commit{ID: id(i + 1), Tree: id(i + 1), Subject: fmt.Sprint("commit ", i)}
		switch last := i == p.Commits-1; {
		case branch != "" && (left == 0 || last): // merge
			c.Parents, branch = []string{main, branch}, ""
			main = c.ID
		case branch != "" && p.random.Float64() < 0.5:
			c.Parents, branch = []string{branch}, c.ID
			left--
		case branch == "" && !last && p.random.Float64() < p.Branches/10:
			c.Parents, branch = []string{main}, c.ID
			left = 1 + p.random.IntN(18)
		default:
			c.Parents = []string{main}
			main = c.ID
		}
		p.index[c.ID] = i
		p.commits = append(p.commits, c)
	}
}

// breakClusters lets stretches of commits not build, the last one and the
// culprit's neighbourhood left alone: those would have no answer.
func (p *play) breakClusters() {
	p.broken = make([]bool, p.Commits)
	for n := 0; n < int(p.Broken*float64(p.Commits)); {
		from, length := p.random.IntN(p.Commits), 1+int(math.Exp(p.random.Float64()*math.Log(float64(p.Commits)/20)))
		for i := from; i < min(from+length, p.Commits-1); i++ {
			if i > p.culprit-3 && i < p.culprit+2 || p.broken[i] {
				continue
			}
			p.broken[i] = true
			n++
		}
	}
}

// changed tells whether a commit has the change.
func (p *play) changed(id string) bool {
	i, ok := p.index[id]
	return ok && p.after[i]
}

// Observe implements bisect.Tester.
func (p *play) Observe(_ context.Context, b bisect.Boot) (bisect.Observation, error) {
	o := bisect.Observation{Commit: b.Commit.ID, VCPUs: b.VCPUs, Profile: b.Profile, Ordinal: b.Ordinal,
		Ending: bisect.Completed}
	if i, ok := p.index[b.Commit.ID]; ok && p.broken[i] {
		o.Ending, o.Detail = bisect.NoBuild, "made up"
		return o, nil
	}
	p.builds[b.Commit.ID] = true
	p.boots++
	if p.Crash > 0 && b.Profile == bisect.MetricBoot && p.changed(b.Commit.ID) && p.random.Float64() < p.Crash {
		o.Ending, o.Detail = bisect.Crashed, "Kernel panic - not syncing: made up"
		return o, nil
	}
	if b.Profile == bisect.MetricBoot {
		o.Samples = p.samples(b.Commit.ID)
	} else {
		o.Samples = []workloads.Sample{{Ops: 1000}}
		o.Tally = &workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
			"posix_timer_fn": {Start: 1000, Expire: 1000, Timers: 1}}}
	}
	return o, nil
}

// samples draws the executions of one boot: level, what the boot adds, and
// what each execution adds, on the logarithmic scale.
func (p *play) samples(commit string) []workloads.Sample {
	level := math.Log(1e5) + p.Drift*p.BootSD*float64(p.boots)/100
	if p.changed(commit) {
		level -= p.Distance * p.BootSD
	}
	level += p.BootSD * p.random.NormFloat64()
	if p.random.Float64() < p.Outliers {
		level -= p.BootSD * (5 + 5*p.random.Float64())
	}
	if p.random.Float64() < p.Modes {
		level -= p.Gap * p.BootSD
	}
	samples := make([]workloads.Sample, p.Runs)
	for i := range samples {
		value := math.Exp(level + p.RunSD*p.random.NormFloat64())
		samples[i].Metrics = []workloads.Metric{{Name: metric, Unit: "ops/s", Better: workloads.Higher, Value: value}}
	}
	return samples
}
