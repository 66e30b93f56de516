package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/journal"
	"bisectd/bisect/runner"
	"bisectd/bisect/simulate"
	"bisectd/blame"
)

type planCmd struct {
	Job    string `arg:"" help:"Job file (YAML)." type:"path"`
	Plays  int    `help:"Made-up bisections for each line." default:"100"`
	Format string `help:"Form of the answer: ${enum}." enum:"text,json" default:"text"`
}

// Help explains the command at length.
func (planCmd) Help() string {
	return `Says what a job is going to cost and how likely its answer is right, for each
kind of difference that the ends may turn out to have: builds and boots are
those that the policy of 'bisectd run' needed in made-up histories of as many
commits, a tenth of which are on merged branches; how long they take is what
builds and boots have taken before, by the journal. No kernel is built or
booted.`
}

// What a build and a boot are taken to cost on a host that has not done any.
// The first build and the boot are as measured on two cores under TCG; what
// another build takes depends on how much lies between two steps of a walk.
const (
	assumedScratch = 200 * time.Second
	assumedBuild   = 15 * time.Second
	assumedBoot    = 2500 * time.Millisecond // less the workload's time
)

// plan is the answer of 'bisectd plan'.
type plan struct {
	Good    bisect.Commit `json:"good"`
	Bad     bisect.Commit `json:"bad"`
	Commits int           `json:"commits"`
	Steps   int           `json:"steps"`
	Scratch time.Duration `json:"scratch"` // of the first build
	Build   time.Duration `json:"build"`   // of one after it
	Boot    time.Duration `json:"boot"`    // of the workload
	Builds  int           `json:"builds_measured"`
	Boots   int           `json:"boots_measured"`
	Plays   int           `json:"plays"`
	Cases   []planCase    `json:"cases"`

	vcpus int
}

// planCase is what one kind of difference costs.
type planCase struct {
	Ends    string        `json:"ends"`
	Builds  float64       `json:"builds"`
	Boots   float64       `json:"boots"`
	Time    time.Duration `json:"time"`
	Correct float64       `json:"p_correct"`
	Wrong   float64       `json:"p_wrong"`
}

// Run predicts.
func (c *planCmd) Run(ctx context.Context, paths *Paths, out io.Writer) error {
	if c.Plays < 1 {
		return blame.Errorf(blame.User, "--plays %d: at least 1", c.Plays)
	}
	job, err := loadJob(c.Job)
	if err != nil {
		return err
	}
	commits, err := history.Open(ctx, job.Repo, job.Good, job.Bad)
	if err != nil {
		return err
	}
	p := plan{Good: commits.Good()[0], Bad: commits.Bad(), Commits: commits.Len(), Steps: commits.Next(nil).Steps,
		Plays: c.Plays, vcpus: len(job.Machine.VCPUs)}
	if err := p.measured(ctx, paths.State, job); err != nil {
		return err
	}
	if err := p.play(ctx, job); err != nil {
		return err
	}
	if c.Format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	}
	return p.text(out)
}

// measured takes from the journal what builds and boots have cost.
func (p *plan) measured(ctx context.Context, state string, job bisect.Job) error {
	store, err := journal.Open(state)
	if err != nil {
		return err
	}
	defer store.Close()
	runs, err := store.Runs(ctx)
	if err != nil {
		return err
	}
	var costs runner.Costs
	for _, r := range runs {
		events, err := store.Events(ctx, r.ID)
		if err != nil {
			return err
		}
		if err := costs.Add(events, workTime(begun(events))); err != nil {
			return fmt.Errorf("run %s: %w", r.ID, err)
		}
	}
	p.Scratch, p.Build, p.Boot = assumedScratch, assumedBuild, assumedBoot
	if p.Builds = len(costs.Builds); p.Builds > 0 {
		p.Build = runner.Median(costs.Builds)
		p.Scratch = max(p.Build, longest(costs.Builds))
	}
	if p.Boots = len(costs.Boots); p.Boots > 0 {
		p.Boot = runner.Median(costs.Boots)
	}
	p.Boot += workTime(job)
	return nil
}

// begun returns the job of a run; none where it had not got that far.
func begun(events []journal.Event) (job bisect.Job) {
	for _, e := range events {
		if e.Kind == resultEvent && e.Phase == journal.Begin && json.Unmarshal(e.Data, &job) == nil {
			return job
		}
	}
	return bisect.Job{}
}

// workTime is for how long the workload runs in one boot.
func workTime(job bisect.Job) time.Duration {
	return time.Duration(job.Workload.Runs) * time.Duration(job.Workload.Duration)
}

func longest(all []time.Duration) (most time.Duration) {
	for _, d := range all {
		most = max(most, d)
	}
	return most
}

// play has the policy bisect in worlds of the range's size.
func (p *plan) play(ctx context.Context, job bisect.Job) error {
	world := simulate.World{Commits: p.Commits, Branches: 0.1, BootSD: 0.03, RunSD: 0.01, Runs: job.Workload.Runs}
	metric := func(distance float64) simulate.World {
		w := world
		w.Distance = distance
		return w
	}
	crash := world
	crash.Crash = 1
	flaky := world
	flaky.Crash = 0.3
	for _, c := range []struct {
		ends  string
		world simulate.World
	}{
		{"a sign without noise", crash},
		{"a failure of 3 boots in 10", flaky},
		{"the metric, by 10 standard deviations", metric(10)},
		{"the metric, by 5", metric(5)},
		{"the metric, by 3", metric(3)},
		{"the metric, by 2", metric(2)},
	} {
		s, err := simulate.Run(ctx, c.world, simulate.Bisectd, p.Plays, 1)
		if err != nil {
			return err
		}
		// The worlds have one vCPU count; the pair is compared at each.
		boots := s.Boots + float64((p.vcpus-1)*bootsOfPair)
		p.Cases = append(p.Cases, planCase{Ends: c.ends, Builds: s.Builds, Boots: boots, Time: p.cost(s.Builds, boots),
			Correct: float64(s.Right) / float64(s.Plays), Wrong: float64(s.Wrong) / float64(s.Plays)})
	}
	return nil
}

// cost is the time that builds and boots take, the first build being from
// scratch.
func (p *plan) cost(builds, boots float64) time.Duration {
	return p.Scratch + time.Duration(max(0, builds-1)*float64(p.Build)+boots*float64(p.Boot)).Round(time.Second)
}

func (p *plan) text(out io.Writer) error {
	source := func(n int, of string) string {
		if n == 0 {
			return "assumed"
		}
		return fmt.Sprintf("median of %d %s", n, of)
	}
	err := say(out, "%d commits between %s and %s, %d steps\n"+
		"a build takes %s (%s), the first one %s; a boot takes %s (%s)\n\n%-40s %7s %7s %9s %11s %9s\n",
		p.Commits, p.Good.Short(), p.Bad.Short(), p.Steps,
		p.Build.Round(time.Second), source(p.Builds, "builds"), p.Scratch.Round(time.Second),
		p.Boot.Round(time.Second/10), source(p.Boots, "boots"),
		"the ends differ in", "builds", "boots", "time", "P(correct)", "P(wrong)")
	for _, c := range p.Cases {
		err = errors.Join(err, say(out, "%-40s %7.0f %7.0f %9s %11.2f %9.2f\n",
			c.Ends, c.Builds, c.Boots, clock(c.Time), c.Correct, c.Wrong))
	}
	return errors.Join(err, say(out, "\nMeans of %d made-up bisections each. Standard deviations are those between\n"+
		"boots, which 'bisectd run' measures at the ends. What is neither correct nor\n"+
		"wrong is inconclusive.\n", p.Plays))
}
