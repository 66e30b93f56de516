package bisect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"bisectd/blame"
)

const (
	// maxReopened bounds how often a fresh boot may contradict the walk.
	maxReopened = 4
	// maxChanges bounds how many changes of one range are looked for.
	maxChanges = 4
	// leastShare is the part of the ends' shift that is worth another walk.
	leastShare = 0.2
)

// Tester makes observations. It answers from its journal what it has observed
// before, so that an interrupted run repeats nothing.
type Tester interface {
	// Observe builds and boots. A commit that does not build or boot is an
	// Observation; an error ends the run.
	Observe(ctx context.Context, b Boot) (Observation, error)
}

// Engine runs one job: it calibrates the ends, walks the range, confirms the
// final pair with fresh boots and has the change classified. Where the pair
// does not make up the whole difference of the ends, it goes on in the parts
// that are left. Every decision is a function of the observations, so that
// replaying them repeats it.
type Engine struct {
	Job      Job
	Range    Range
	Tester   Tester
	Judge    Judge
	Progress Progress
	// Counterpart is nil where the workload has none.
	Counterpart *Counterpart

	result   Result
	observed map[bootID]Observation
	vcpus    int // the count of the walk
	also     []remark
	related  []Signal // markers that differ between the ends

	unmeasured int // commits in a row
}

// segment is a part of the range with a difference between its ends.
type segment struct {
	old, new Commit
	ends     pair
	shift    Shift              // of the ends
	known    map[string]Verdict // what confines a walk to the segment
	from     int                // ordinal of the first boots of the ends
	pool     pair               // boots of placed commits, which are as good as the ends'
	host     sentinel
}

// remark is a reason beside those of the change that answers the job: what a
// walk found that did not move the metric, or could not find.
type remark struct {
	commit string // that it is about, if it is about one
	text   string
}

// whole is the segment between the ends of the job.
func (e *Engine) whole() *segment {
	return &segment{old: e.result.Good, new: e.result.Bad, known: map[string]Verdict{}}
}

// Run answers the job.
func (e *Engine) Run(ctx context.Context) (Result, error) {
	e.begin()
	s, guides, err := e.calibrate(ctx)
	if err != nil {
		return e.result, err
	}
	if len(guides) == 0 {
		return e.unseparated(s), nil
	}
	rest, err := e.search(ctx, s, guides)
	for err == nil && len(rest) > 0 && len(e.result.Changes) < maxChanges {
		var more []*segment
		if more, err = e.further(ctx, rest[0]); err == nil {
			rest = append(rest[1:], more...)
		} else if why := e.unmeasurable(ctx, err); why != "" { // what is confirmed stays so
			e.also, rest, err = append(e.also, remark{text: why}), rest[1:], nil
		}
	}
	e.conclude()
	if err == nil && e.result.Class == BehaviourChange && e.Counterpart != nil {
		if err = e.rebase(func(sub *Engine) (Result, error) { return sub.Run(ctx) }); err == nil {
			e.conclude()
		}
	}
	return e.result, err
}

func (e *Engine) begin() {
	e.observed = map[bootID]Observation{}
	e.result = Result{Job: e.Job, Good: e.Range.Good()[0], Bad: e.Range.Bad(), Commits: e.Range.Len()}
}

// search walks on one guide after the other until one leads to a change, and
// returns the parts of the segment in which another one is left.
func (e *Engine) search(ctx context.Context, s *segment, guides []Signal) ([]*segment, error) {
	for i, guide := range guides {
		last := i == len(guides)-1
		rest, done, err := e.pursue(ctx, s, guide, last)
		if err != nil || done {
			return rest, err
		}
	}
	return nil, nil
}

// pursue walks on one signal and confirms what it finds. It reports false
// when the job's metric does not move there, so that the next signal is due.
func (e *Engine) pursue(ctx context.Context, s *segment, guide Signal, last bool) ([]*segment, bool, error) {
	e.result.Guide, e.result.Suspects = &guide, nil
	s.pool = pair{}
	if err := e.anchor(ctx, s, guide); err != nil {
		return nil, false, err
	}
	if why := e.Judge.Hopeless(guide, s.ends.old, s.ends.new); why != "" {
		e.inconclusive(why)
		return nil, last, nil
	}
	verdicts := maps.Clone(s.known)
	for range maxReopened {
		step, steady, err := e.walk(ctx, s, guide, verdicts)
		if err != nil {
			return nil, false, err
		}
		if !steady {
			e.inconclusive(unsteady)
			return nil, last, nil
		}
		if why := open(step, guide); why != "" {
			e.result.Suspects = step.Suspects
			e.inconclusive(why)
			return nil, last, nil
		}
		first := step.Suspects[0]
		parent, ok := e.Range.Commit(first.Parents[0])
		if !ok {
			return nil, false, fmt.Errorf("%s: its first parent %s is unknown", first, first.Parents[0])
		}
		found, err := e.confirm(ctx, s, guide, parent, first, verdicts)
		if err != nil {
			return nil, false, err
		}
		switch found.confirmation {
		case confirmed:
			e.result.Changes = append(e.result.Changes, found.Found)
			if !e.accounts(s, guide, found.shift) { // a broken promise, but not why the metric moved
				return nil, last, nil
			}
			return e.remainder(s, found), true, nil
		case elsewhere:
			e.also = append(e.also, remark{first.ID, fmt.Sprintf("%s is another change of this range: %s %s -> %s",
				first, guide.Name, guide.Old, guide.New)})
			if last {
				e.inconclusive(fmt.Sprintf("%s moves the signal %s but not %s, and no other signal is left to walk on",
					first, guide.Name, e.Job.Judge.Metric))
			}
			return nil, last, nil
		case contradicted:
		}
	}
	e.inconclusive(fmt.Sprintf("fresh boots contradicted the walk on %s %d times", guide.Name, maxReopened))
	return nil, last, nil
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

// remainder returns the parts before and behind a change in which the metric
// still has a good part of its way to go.
func (e *Engine) remainder(s *segment, f outcome) []*segment {
	if s.shift.Decision != Moved || f.Share == 0 || !e.left(s.shift, f.shift) {
		return nil
	}
	before, behind := maps.Clone(s.known), maps.Clone(s.known)
	before[f.Parent.ID], behind[f.FirstNew.ID] = New, Old
	var rest []*segment
	for _, part := range []*segment{
		{old: s.old, new: f.Parent, known: before, ends: pair{s.ends.old, f.boots.old}},
		{old: f.FirstNew, new: s.new, known: behind, ends: pair{f.boots.new, s.ends.new}},
	} {
		part.from = furtherOrdinal
		here := e.Judge.Shift(part.ends.old, part.ends.new)
		if part.old.ID != part.new.ID && here.Decision == Moved && math.Abs(e.share(here)) >= leastShare {
			rest = append(rest, part)
		}
	}
	return rest
}

// left tells whether a change leaves a good part of its segment's shift
// unexplained, beyond what the two intervals allow for. Either shift was
// measured by alternate boots, so that a drift of the host between them is in
// neither.
func (e *Engine) left(segment, change Shift) bool {
	rest := math.Log1p(segment.Effect) - math.Log1p(change.Effect)
	unsure := math.Hypot(halfWidth(segment), halfWidth(change))
	whole := e.result.Ends[len(e.result.Ends)-1]
	return math.Abs(rest) > max(unsure, leastShare*math.Abs(math.Log1p(whole.Effect)))
}

// halfWidth is half of the interval of a shift, on the logarithmic scale.
func halfWidth(s Shift) float64 { return (math.Log1p(s.High) - math.Log1p(s.Low)) / 2 }

// further measures a part of the range anew and searches it where its ends
// differ in fresh boots, too.
func (e *Engine) further(ctx context.Context, s *segment) ([]*segment, error) {
	e.Progress.tell(Update{Phase: Calibrating, VCPUs: e.vcpus,
		Text: fmt.Sprintf("the metric also moves between %s and %s", s.old.Short(), s.new.Short())})
	var err error
	if s.ends, s.shift, err = e.measure(ctx, s.old, s.new, e.vcpus, ProbeBoot, s.from); err != nil {
		return nil, err
	}
	if s.shift.Decision != Moved {
		return nil, nil
	}
	found := len(e.result.Changes)
	signals, err := e.signals(ctx, s)
	if err != nil {
		return nil, err
	}
	rest, err := e.search(ctx, s, e.relevant(signals, s.shift.Decision))
	if len(e.result.Changes) == found {
		e.also = append(e.also, remark{text: fmt.Sprintf("%s also moves between %s and %s, which could not be placed",
			e.Job.Judge.Metric, s.old.Short(), s.new.Short())})
	}
	return rest, err
}

// conclude puts the change first that answers the job: a regression before
// anything else, then the largest share.
func (e *Engine) conclude() {
	if len(e.result.Changes) == 0 {
		return
	}
	slices.SortStableFunc(e.result.Changes, func(a, b Found) int {
		if x, y := a.Class == Regression, b.Class == Regression; x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return cmp.Compare(math.Abs(b.Share), math.Abs(a.Share))
	})
	main := e.result.Changes[0]
	e.result.FirstNew, e.result.Parent, e.result.Findings = &main.FirstNew, &main.Parent, main.Findings
	e.result.Guide, e.result.Suspects = &main.Guide, nil
	e.result.Class, e.result.Reasons = main.Class, slices.Clone(main.Reasons)
	e.result.Unrelated = slices.DeleteFunc(e.result.Unrelated, func(s Signal) bool { return main.shows(s.Name) })
	for _, r := range e.also {
		if !slices.ContainsFunc(e.result.Changes, func(f Found) bool { return f.FirstNew.ID == r.commit }) {
			e.result.Reasons = append(e.result.Reasons, r.text)
		}
	}
}

// calibrate measures both ends at the lowest vCPU count that separates them
// and returns the signals to walk on.
func (e *Engine) calibrate(ctx context.Context) (*segment, []Signal, error) {
	s := e.whole()
	for _, n := range e.Job.Machine.VCPUs {
		e.Progress.tell(Update{Phase: Calibrating, VCPUs: n})
		e.vcpus = n
		var err error
		if s.ends, s.shift, err = e.measure(ctx, s.old, s.new, n, ProbeBoot, 0); err != nil {
			return nil, nil, err
		}
		if err := e.usable(s.ends); err != nil {
			return nil, nil, err
		}
		e.result.Ends = append(e.result.Ends, s.shift)
		e.result.EndVCPUs = append(e.result.EndVCPUs, n)
		if e.Job.Judge.Signal == OnlyCrash {
			if err := e.provoke(ctx, s); err != nil {
				return nil, nil, err
			}
		}
		signals, err := e.signals(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		e.describeEnds(signals)
		if guides := e.relevant(signals, s.shift.Decision); len(guides) > 0 {
			return s, guides, nil
		}
	}
	return s, nil, nil
}

// provoke boots the ends until the bad one has failed often enough to be
// walked on: a crash that comes now and then may stay away for long.
func (e *Engine) provoke(ctx context.Context, s *segment) error {
	for n := s.ends.new.of(MetricBoot); n < maxAnchors && s.ends.failures() < 2; n++ {
		if err := e.both(ctx, &s.ends, s.old, s.new, e.vcpus, MetricBoot, s.from+n); err != nil {
			return err
		}
	}
	return nil
}

// signals lists what separates the ends. A broken promise seen in one boot may
// be a stall of the host: it has to be seen again before a walk goes on it.
func (e *Engine) signals(ctx context.Context, s *segment) ([]Signal, error) {
	signals := e.Judge.Signals(s.ends.old, s.ends.new)
	seen := s.ends.new.of(ProbeBoot)
	broken := func(g Signal) bool { return g.Kind == InvariantSignal && g.Related }
	if seen > 1 || !slices.ContainsFunc(signals, broken) {
		return signals, nil
	}
	if err := e.both(ctx, &s.ends, s.old, s.new, e.vcpus, ProbeBoot, s.from+seen); err != nil {
		return nil, err
	}
	return e.Judge.Signals(s.ends.old, s.ends.new), nil
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
// A job that names its signal has that one.
func (e *Engine) relevant(signals []Signal, metric Change) []Signal {
	var guides []Signal
	for _, s := range signals {
		wanted := s.Related && (s.Kind != MarkerSignal || metric == Moved)
		switch only := e.Job.Judge.Signal; only {
		case "", AutoSignal:
		case OnlyMetric, OnlyCrash:
			wanted = string(s.Kind) == only
		default:
			wanted = s.Name == only
		}
		if wanted {
			guides = append(guides, s)
		}
	}
	return guides
}

func (e *Engine) describeEnds(signals []Signal) {
	for _, s := range signals {
		e.Progress.tell(Update{Phase: Calibrating, VCPUs: e.vcpus,
			Text: fmt.Sprintf("ends differ in %s: %s -> %s", s.Name, s.Old, s.New)})
		if !s.Related {
			e.result.Unrelated = append(e.result.Unrelated, s)
		} else if s.Kind == MarkerSignal {
			e.related = append(e.related, s)
		}
	}
}

// unseparated ends a run whose ends show no difference to walk on. Ends that
// are too noisy to tell are not ends that do not differ.
func (e *Engine) unseparated(last *segment) Result {
	e.result.Class = NotReproduced
	if only := e.Job.Judge.Signal; only != "" && only != AutoSignal {
		e.result.Reasons = append(e.result.Reasons, "the ends do not differ in the signal that the job names: "+only)
	}
	for _, s := range e.related {
		e.result.Reasons = append(e.result.Reasons, fmt.Sprintf(
			"the ends differ in %s: %s -> %s; judge.signal: %s walks on it", s.Name, s.Old, s.New, s.Name))
	}
	for i, s := range e.result.Ends {
		if s.Decision != Same {
			e.result.Class = Inconclusive
		}
		e.result.Reasons = append(e.result.Reasons, fmt.Sprintf(
			"at %d vCPU, %s of the ends: %s (%+.1f %%, 95 %% interval %+.1f to %+.1f, %d and %d boots)", e.result.EndVCPUs[i],
			s.Metric, s.Decision, 100*s.Effect, 100*s.Low, 100*s.High, len(s.Old.Boots), len(s.New.Boots)))
	}
	for _, o := range slices.Concat(last.ends.old, last.ends.new) {
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
