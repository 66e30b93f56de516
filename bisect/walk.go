package bisect

import (
	"context"
	"fmt"
	"slices"

	"bisectd/blame"
)

const (
	// sentinelEvery is how many boots a walk on the metric makes before the
	// ends are booted once more, to see whether the host still is as it was.
	sentinelEvery = 20
	// maxRecalibrated bounds how often the ends are measured anew in one walk.
	maxRecalibrated = 3
	// maxUnmeasured is how many commits in a row may fail to be measured.
	maxUnmeasured = 3
	// maxCrashBoots bounds the boots of a commit in the walk on a crash that
	// comes now and then.
	maxCrashBoots = 80
)

// walk tests commits until the range allows no further question. Verdicts
// that are already there are kept: a reopened walk goes on from them. It is
// not steady when the host keeps changing its speed.
func (e *Engine) walk(ctx context.Context, s *segment, guide Signal, verdicts map[string]Verdict,
) (step Step, steady bool, err error) {
	for {
		step = e.Range.Next(verdicts)
		if step.Done {
			return step, true, nil
		}
		e.Progress.tell(Update{Phase: Walking, Commit: step.Test, VCPUs: e.vcpus, Left: step.Left, Steps: step.Steps})
		test, seen, err := e.test(ctx, s, guide, step.Test)
		if err != nil {
			return step, false, err
		}
		verdicts[step.Test.ID] = test.Verdict
		e.result.Tests = append(e.result.Tests, test.Test)
		e.Progress.tell(Update{Phase: Walking, Commit: step.Test, VCPUs: e.vcpus, Left: step.Left, Steps: step.Steps,
			Done: true, Text: fmt.Sprintf("%s: %s", test.Verdict, test.Detail)})
		s.take(guide, test, seen)
		if guide.Kind == MetricSignal {
			if steady, err = e.watch(ctx, s, len(seen)); err != nil || !steady {
				return step, false, err
			}
		}
	}
}

// tested is a test with what only the walk needs of it.
type tested struct {
	Test
	between bool
}

// test places one commit, with as many boots as that takes. One that stays
// unknown cannot be used and is skipped.
func (e *Engine) test(ctx context.Context, s *segment, guide Signal, c Commit) (tested, Observations, error) {
	t := tested{Test: Test{Commit: c, Signal: guide}}
	var seen Observations
	for ordinal := range most(guide) {
		o, err := e.observe(ctx, Boot{Commit: c, VCPUs: e.vcpus, Profile: guide.Profile,
			Ordinal: ordinal, Only: guide.check()})
		if why := e.unmeasurable(ctx, err); why != "" {
			t.Verdict, t.Detail = Skip, why
			return t, nil, nil
		}
		if err != nil {
			return t, nil, err
		}
		e.unmeasured = 0
		if o.Ending != NoBuild {
			t.Boots++
		}
		seen = append(seen, o)
		p := e.place(s, guide, seen)
		if t.Verdict, t.Detail, t.between = p.Verdict, p.Detail, p.Between; t.Verdict != Unknown {
			return t, seen, nil
		}
	}
	t.Verdict, t.Detail = Skip, fmt.Sprintf("undecided after %d boots: %s", t.Boots, t.Detail)
	return t, seen, nil
}

// unmeasurable says why a commit is skipped although its boots failed for no
// fault of the kernel's that could be seen: a workload that ends in error, or
// a clock that cannot be relied on, at one commit after the other commits gave
// results. Several in a row are the host's doing, and end the run.
func (e *Engine) unmeasurable(ctx context.Context, err error) string {
	if err == nil || ctx.Err() != nil {
		return ""
	}
	if of := blame.Of(err); of != blame.Workload && of != blame.Environment {
		return ""
	}
	if e.unmeasured++; e.unmeasured > maxUnmeasured {
		return ""
	}
	return "could not be measured: " + err.Error()
}

// most bounds the boots of one commit.
func most(guide Signal) int {
	if guide.Kind == CrashSignal {
		return maxCrashBoots
	}
	return maxBoots
}

// place says on which side of the guide a commit stands. Commits that were
// placed by the metric stand in for more boots of the ends.
func (e *Engine) place(s *segment, guide Signal, seen Observations) Placement {
	return e.Judge.Place(guide, slices.Concat(s.ends.old, s.pool.old), slices.Concat(s.ends.new, s.pool.new), seen)
}

// take adds the boots of a placed commit to those of its end. A commit with a
// level of its own is like neither, and one whose kernel is that of an end or
// of another commit has given the same boots already.
func (s *segment) take(guide Signal, t tested, seen Observations) {
	if guide.Kind != MetricSignal && guide.Kind != CrashSignal || t.between || len(seen) == 0 {
		return
	}
	if known := slices.Concat(s.ends.old, s.ends.new, s.pool.old, s.pool.new); known.has(seen[0].Kernel.Signature) {
		return
	}
	switch t.Verdict {
	case Old:
		s.pool.old = append(s.pool.old, seen...)
	case New:
		s.pool.new = append(s.pool.new, seen...)
	case Skip, Unknown:
	}
}

// has tells whether a kernel with the signature was booted.
func (o Observations) has(signature string) bool {
	return signature != "" && slices.ContainsFunc(o, func(b Observation) bool { return b.Kernel.Signature == signature })
}

// sentinel watches the host during the walks on the metric in one segment.
type sentinel struct {
	since int // boots since the ends were last booted
	made  int
	again int
}

// unsteady is why a walk on the metric is given up.
const unsteady = "the speed of this host changes faster than the ends can be measured: " +
	"keep other work off it, or walk on a signal without noise"

// watch counts the boots of a test, and boots the ends once more when it is
// time. Ends that moved together mean that the host did: they are measured
// again, and what was pooled under the old conditions is dropped. It reports
// false when the host does not hold still for long enough.
func (e *Engine) watch(ctx context.Context, s *segment, boots int) (bool, error) {
	w := &s.host
	if w.since += boots; w.since < sentinelEvery {
		return true, nil
	}
	var now pair
	if err := e.both(ctx, &now, s.old, s.new, e.vcpus, MetricBoot, s.from+sentinelOrdinal+w.made); err != nil {
		return false, err
	}
	w.since, w.made = 0, w.made+1
	if !e.Judge.Drifted(s.ends.old, s.ends.new, now.old, now.new) {
		s.ends.old, s.ends.new = append(s.ends.old, now.old...), append(s.ends.new, now.new...)
		return true, nil
	}
	if w.again++; w.again > maxRecalibrated {
		return false, nil
	}
	e.Progress.tell(Update{Phase: Calibrating, VCPUs: e.vcpus,
		Text: "the host is not as fast as it was: measuring both ends again"})
	s.pool = pair{}
	s.from += againOrdinal
	var err error
	if s.ends, s.shift, err = e.measure(ctx, s.old, s.new, e.vcpus, ProbeBoot, s.from); err != nil {
		return false, err
	}
	if s.shift.Decision != Moved {
		return false, nil
	}
	return true, e.anchor(ctx, s, Signal{Kind: MetricSignal, Name: e.Job.Judge.Metric, Profile: MetricBoot})
}
