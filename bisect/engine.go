package bisect

import (
	"context"
	"fmt"
	"slices"

	"bisectd/blame"
)

// Boots made at the ends, at the final pair and at a commit of a metric walk.
// Three boots a side are the fewest that give a spread; twenty bound the bill
// of a metric that never becomes clear.
const (
	minBoots = 3
	maxBoots = 20
	// maxReopened bounds how often a fresh boot may contradict the walk.
	maxReopened = 4
	// freshOrdinal starts the ordinals of the confirmation, so that its boots
	// are never those of the walk.
	freshOrdinal = 100
)

// Tester makes observations. It answers from its journal what it has observed
// before, so that an interrupted run repeats nothing.
type Tester interface {
	// Observe builds and boots. A commit that does not build or boot is an
	// Observation; an error ends the run.
	Observe(ctx context.Context, b Boot) (Observation, error)
}

// Engine runs one job: it calibrates the ends, walks the range, confirms the
// final pair with fresh boots and has the change classified. Every decision is
// a function of the observations, so that replaying them repeats it.
type Engine struct {
	Job      Job
	Range    Range
	Tester   Tester
	Judge    Judge
	Progress Progress

	result   Result
	observed map[bootID]Observation
	ends     pair     // observations of the ends at the count of the walk
	vcpus    int      // the count of the walk
	also     []string // what walks found that did not move the metric
}

type bootID struct {
	commit  string
	vcpus   int
	profile Profile
	ordinal int
}

// pair holds the observations of two commits.
type pair struct{ old, new Observations }

// Run answers the job.
func (e *Engine) Run(ctx context.Context) (Result, error) {
	e.observed = map[bootID]Observation{}
	e.result = Result{Job: e.Job, Good: e.Range.Good()[0], Bad: e.Range.Bad(), Commits: e.Range.Len()}
	guides, err := e.calibrate(ctx)
	if err != nil {
		return e.result, err
	}
	if len(guides) == 0 {
		return e.unseparated(), nil
	}
	for i, guide := range guides {
		last := i == len(guides)-1
		done, err := e.pursue(ctx, guide, last)
		if err != nil || done {
			return e.result, err
		}
	}
	return e.result, nil
}

// pursue walks on one signal and confirms what it finds. It reports false
// when the job's metric does not move there, so that the next signal is due.
func (e *Engine) pursue(ctx context.Context, guide Signal, last bool) (bool, error) {
	e.result.Guide, e.result.Suspects = &guide, nil
	verdicts := map[string]Verdict{}
	for range maxReopened {
		step, err := e.walk(ctx, guide, verdicts)
		if err != nil {
			return false, err
		}
		if why := open(step, guide); why != "" {
			e.result.Suspects = step.Suspects
			e.inconclusive(why)
			return last, nil
		}
		first := step.Suspects[0]
		parent, ok := e.Range.Commit(first.Parents[0])
		if !ok {
			return false, fmt.Errorf("%s: its first parent %s is unknown", first, first.Parents[0])
		}
		outcome, err := e.confirm(ctx, guide, parent, first, verdicts)
		if err != nil {
			return false, err
		}
		switch outcome {
		case confirmed:
			return true, nil
		case elsewhere:
			e.also = append(e.also, fmt.Sprintf("%s is another change of this range: %s %s -> %s", first, guide.Name,
				guide.Old, guide.New))
			if last {
				e.inconclusive(fmt.Sprintf("%s moves the signal %s but not %s, and no other signal is left to walk on",
					first, guide.Name, e.Job.Judge.Metric))
			}
			return last, nil
		case contradicted:
		}
	}
	e.inconclusive(fmt.Sprintf("fresh boots contradicted the walk on %s %d times", guide.Name, maxReopened))
	return last, nil
}

// open says why a finished walk has named no pair, or nothing.
func open(step Step, guide Signal) string {
	switch {
	case len(step.Suspects) == 0:
		return fmt.Sprintf("the verdicts on %s contradict each other: no commit fits all of them", guide.Name)
	case len(step.Suspects) > 1:
		return fmt.Sprintf("%d commits are left that the walk on %s cannot tell apart: all but the last cannot be tested",
			len(step.Suspects), guide.Name)
	case len(step.Suspects[0].Parents) == 0:
		return fmt.Sprintf("%s is a root commit: it has no parent to be compared with", step.Suspects[0])
	}
	return ""
}

// observe asks the tester once for each boot.
func (e *Engine) observe(ctx context.Context, b Boot) (Observation, error) {
	id := bootID{b.Commit.ID, b.VCPUs, b.Profile, b.Ordinal}
	if o, ok := e.observed[id]; ok {
		return o, nil
	}
	o, err := e.Tester.Observe(ctx, b)
	if err != nil {
		return Observation{}, err
	}
	e.observed[id] = o
	return o, nil
}

// calibrate measures both ends at the lowest vCPU count that separates them
// and returns the signals to walk on.
func (e *Engine) calibrate(ctx context.Context) ([]Signal, error) {
	for _, n := range e.Job.Machine.VCPUs {
		e.Progress.tell(Update{Phase: Calibrating, VCPUs: n})
		ends, shift, err := e.measure(ctx, e.result.Good, e.result.Bad, n, ProbeBoot, 0)
		if err != nil {
			return nil, err
		}
		if err := e.usable(ends); err != nil {
			return nil, err
		}
		e.result.Ends = append(e.result.Ends, shift)
		e.result.EndVCPUs = append(e.result.EndVCPUs, n)
		e.ends, e.vcpus = ends, n
		signals := e.Judge.Signals(ends.old, ends.new)
		e.describeEnds(signals)
		if guides := relevant(signals, shift.Decision); len(guides) > 0 {
			return guides, nil
		}
	}
	return nil, nil
}

// measure boots old and new alternately: one boot of the profile lead each,
// then metric boots until the shift is clear or maxBoots are made. A side
// that does not complete is not booted again and again.
func (e *Engine) measure(ctx context.Context, old, new Commit, vcpus int, lead Profile, from int) (pair, Shift, error) {
	var p pair
	shift := e.Judge.Shift(nil, nil)
	both := func(profile Profile, ordinal int) error {
		sides := []struct {
			commit Commit
			into   *Observations
		}{{old, &p.old}, {new, &p.new}}
		if ordinal%2 == 1 { // ABBA order: a drift of the host falls on both sides alike
			slices.Reverse(sides)
		}
		for _, side := range sides {
			o, err := e.observe(ctx, Boot{Commit: side.commit, VCPUs: vcpus, Profile: profile, Ordinal: ordinal})
			if err != nil {
				return err
			}
			*side.into = append(*side.into, o)
		}
		return nil
	}
	failed := func() bool { return !p.old.completed() || !p.new.completed() }
	for i := range minBoots { // a failure seen once is no signal yet
		if err := both(lead, from+i); err != nil {
			return p, shift, err
		}
		if !failed() {
			break
		}
	}
	for i := 0; i < maxBoots && !p.old.failed(lead) && !p.new.failed(lead); i++ {
		if err := both(MetricBoot, from+i); err != nil {
			return p, shift, err
		}
		shift = e.Judge.Shift(p.old, p.new)
		if i+1 >= minBoots && (failed() || shift.Decision != Unclear) {
			break
		}
	}
	return p, shift, nil
}

// failed tells whether a boot of the profile did not come to its end.
func (o Observations) failed(profile Profile) bool {
	return slices.ContainsFunc(o, func(b Observation) bool { return b.Profile == profile && b.Ending != Completed })
}

// completed tells whether every boot came to its end.
func (o Observations) completed() bool {
	for _, b := range o {
		if b.Ending != Completed {
			return false
		}
	}
	return true
}

// usable refuses ends that cannot anchor a walk.
func (e *Engine) usable(ends pair) error {
	for _, o := range ends.old {
		if o.Ending != Completed {
			return blame.Errorf(blame.User, "good revision %s is no usable end: %s: %s; choose one that builds and boots",
				e.result.Good.Short(), o.Ending, o.Detail)
		}
	}
	for _, o := range ends.new {
		if o.Ending == NoBuild {
			return blame.Errorf(blame.User, "bad revision %s does not build: %s; choose one that builds",
				e.result.Bad.Short(), o.Detail)
		}
	}
	return nil
}

// relevant chooses the signals to walk on, cheapest first, the metric last. A
// marker alone changes nobody's result, so it only guides the search for a
// metric that moved; a broken invariant or a crash is worth finding by itself.
func relevant(signals []Signal, metric Change) []Signal {
	var guides []Signal
	for _, s := range signals {
		if s.Kind == MarkerSignal && metric != Moved || !s.Related {
			continue
		}
		guides = append(guides, s)
	}
	return guides
}

func (e *Engine) describeEnds(signals []Signal) {
	for _, s := range signals {
		e.Progress.tell(Update{Phase: Calibrating, VCPUs: e.vcpus,
			Text: fmt.Sprintf("ends differ in %s: %s -> %s", s.Name, s.Old, s.New)})
		if !s.Related {
			e.result.Unrelated = append(e.result.Unrelated, s)
		}
	}
}

// unseparated ends a run whose ends show no difference to walk on. Ends that
// are too noisy to tell are not ends that do not differ.
func (e *Engine) unseparated() Result {
	e.result.Class = NotReproduced
	for i, s := range e.result.Ends {
		if s.Decision != Same {
			e.result.Class = Inconclusive
		}
		e.result.Reasons = append(e.result.Reasons, fmt.Sprintf(
			"at %d vCPU, %s of the ends: %s (%+.1f %%, 95 %% interval %+.1f to %+.1f, %d and %d boots)", e.result.EndVCPUs[i],
			s.Metric, s.Decision, 100*s.Effect, 100*s.Low, 100*s.High, len(s.Old.Boots), len(s.New.Boots)))
	}
	for _, o := range slices.Concat(e.ends.old, e.ends.new) {
		if o.Ending != Completed {
			e.inconclusive(fmt.Sprintf("%s failed in some of its boots only: %s: %s", o.Commit, o.Ending, o.Detail))
		}
	}
	return e.result
}

func (e *Engine) inconclusive(why string) {
	e.result.Class = Inconclusive
	e.result.Reasons = append(e.result.Reasons, why)
}
