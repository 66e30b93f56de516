package simulate

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/judge"
)

// Policy answers one play: the commit named, or nothing, and whether anything
// was said to differ at all.
type Policy func(context.Context, *play) (named string, differs bool, err error)

// Score is what a policy achieved in a world.
type Score struct {
	Plays                 int
	Right, Wrong, Unknown int
	Differs               int     // plays in which a difference was claimed
	Boots, Builds         float64 // means
}

func (s Score) share(n int) float64 { return float64(n) / float64(max(s.Plays, 1)) }

// Run plays a world with a policy, on all cores. Play number i is the same
// whatever the policy.
func Run(ctx context.Context, w World, policy Policy, plays int, seed uint64) (Score, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	score := Score{Plays: plays}
	var failed error
	work := make(chan uint64)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for n := range work {
				p := w.newPlay(seed + n)
				named, differs, err := policy(ctx, p)
				mu.Lock()
				if err != nil && failed == nil {
					failed = fmt.Errorf("play %d: %w", n, err)
				}
				score.add(p, named, differs)
				mu.Unlock()
			}
		})
	}
	for n := range plays {
		work <- uint64(n)
	}
	close(work)
	wg.Wait()
	score.Boots /= float64(plays)
	score.Builds /= float64(plays)
	return score, failed
}

func (s *Score) add(p *play, named string, differs bool) {
	switch {
	case named == "":
		s.Unknown++
	case p.Distance == 0 && p.Crash == 0 || named != p.commits[p.culprit].ID:
		s.Wrong++
	default:
		s.Right++
	}
	if differs {
		s.Differs++
	}
	s.Boots += float64(p.boots)
	s.Builds += float64(len(p.builds))
}

// Bisectd is the policy that bisectd follows.
func Bisectd(ctx context.Context, p *play) (string, bool, error) {
	r := history.New([]bisect.Commit{p.good}, p.commits)
	job := bisect.Job{Machine: bisect.Machine{VCPUs: []int{1}},
		Judge: bisect.Rules{Metric: metric, MinEffect: leastEffect, Error: acceptedError}}
	if p.Crash > 0 {
		job.Judge.Signal = bisect.OnlyCrash
	}
	engine := bisect.Engine{Job: job, Range: r, Tester: p, Judge: &judge.Judge{Metric: metric,
		MinEffect: leastEffect, Error: acceptedError, Steps: r.Next(nil).Steps}}
	result, err := engine.Run(ctx)
	if err != nil {
		return "", false, err
	}
	differs := result.Class != bisect.NotReproduced && result.Class != bisect.Inconclusive
	for _, s := range result.Ends {
		differs = differs || s.Decision == bisect.Moved
	}
	if result.FirstNew == nil || result.Class == bisect.Inconclusive {
		return "", differs, nil
	}
	return result.FirstNew.ID, differs, nil
}

const (
	// leastEffect is below what the worlds change.
	leastEffect   = 0.02
	acceptedError = 0.05
)

// FixedRepeats is the policy of most bisectors: so many boots of each commit,
// and their mean against the middle between the ends, which got six boots
// each. In a world of crashes one crash makes a commit new.
func FixedRepeats(repeats int) Policy {
	return func(ctx context.Context, p *play) (string, bool, error) {
		r := history.New([]bisect.Commit{p.good}, p.commits)
		middle := 0.0
		for range 6 {
			middle += (p.value(ctx, p.good) + p.value(ctx, r.Bad())) / 12
		}
		verdicts := map[string]bisect.Verdict{}
		for {
			step := r.Next(verdicts)
			if step.Done {
				if len(step.Suspects) == 1 {
					return step.Suspects[0].ID, true, nil
				}
				return "", true, nil
			}
			verdicts[step.Test.ID] = p.fixed(ctx, step.Test, repeats, middle)
		}
	}
}

// fixed places a commit by so many boots.
func (p *play) fixed(ctx context.Context, c bisect.Commit, repeats int, middle float64) bisect.Verdict {
	sum := 0.0
	for range repeats {
		o, _ := p.Observe(ctx, bisect.Boot{Commit: c, VCPUs: 1, Profile: bisect.MetricBoot})
		switch {
		case o.Ending == bisect.NoBuild:
			return bisect.Skip
		case o.Ending != bisect.Completed:
			return bisect.New
		}
		sum += o.Samples[0].Metrics[0].Value / float64(repeats)
	}
	if p.Crash > 0 || sum > middle {
		return bisect.Old
	}
	return bisect.New
}

// value is what one boot of a commit measures; 0 when it crashes.
func (p *play) value(ctx context.Context, c bisect.Commit) float64 {
	o, _ := p.Observe(ctx, bisect.Boot{Commit: c, VCPUs: 1, Profile: bisect.MetricBoot})
	if len(o.Samples) == 0 {
		return 0
	}
	return o.Samples[0].Metrics[0].Value
}
