package bisect

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// walk tests commits until the range allows no further question. Verdicts
// that are already there are kept: a reopened walk goes on from them.
func (e *Engine) walk(ctx context.Context, guide Signal, verdicts map[string]Verdict) (Step, error) {
	for {
		step := e.Range.Next(verdicts)
		if step.Done {
			return step, nil
		}
		e.Progress.tell(Update{Phase: Walking, Commit: step.Test, VCPUs: e.vcpus, Left: step.Left, Steps: step.Steps})
		test, err := e.test(ctx, guide, step.Test)
		if err != nil {
			return step, err
		}
		verdicts[step.Test.ID] = test.Verdict
		e.result.Tests = append(e.result.Tests, test)
		e.Progress.tell(Update{Phase: Walking, Commit: step.Test, VCPUs: e.vcpus, Left: step.Left, Steps: step.Steps,
			Done: true, Text: fmt.Sprintf("%s: %s", test.Verdict, test.Detail)})
	}
}

// test places one commit, with as many boots as that takes. One that stays
// unknown cannot be used and is skipped.
func (e *Engine) test(ctx context.Context, guide Signal, c Commit) (Test, error) {
	t := Test{Commit: c, Signal: guide}
	var seen Observations
	for ordinal := range maxBoots {
		o, err := e.observe(ctx, Boot{Commit: c, VCPUs: e.vcpus, Profile: guide.Profile, Ordinal: ordinal})
		if err != nil {
			return t, err
		}
		if o.Ending != NoBuild {
			t.Boots++
		}
		seen = append(seen, o)
		if t.Verdict, t.Detail = e.Judge.Place(guide, e.ends.old, e.ends.new, seen); t.Verdict != Unknown {
			return t, nil
		}
	}
	t.Verdict, t.Detail = Skip, fmt.Sprintf("undecided after %d boots: %s", t.Boots, t.Detail)
	return t, nil
}

type confirmation int

const (
	contradicted confirmation = iota // fresh boots disagree with the walk: it goes on
	elsewhere                        // the guide is right, but the metric moved at another commit
	confirmed
)

// confirm boots the final pair afresh at every vCPU count and classifies the
// change at each.
func (e *Engine) confirm(ctx context.Context, guide Signal, parent, first Commit, verdicts map[string]Verdict,
) (confirmation, error) {
	var findings []Finding
	counts := append([]int{e.vcpus}, slices.DeleteFunc(slices.Clone(e.Job.Machine.VCPUs),
		func(n int) bool { return n == e.vcpus })...)
	for _, n := range counts {
		e.Progress.tell(Update{Phase: Confirming, Commit: first, VCPUs: n})
		p, shift, err := e.measure(ctx, parent, first, n, TraceBoot, freshOrdinal)
		if err != nil {
			return contradicted, err
		}
		if n == e.vcpus {
			if !e.agrees(guide, parent, first, p, verdicts) {
				return contradicted, nil
			}
			if guide.Kind != CrashSignal && !e.accounts(guide, shift) {
				return elsewhere, nil
			}
		}
		finding, err := e.classify(ctx, parent, first, n, p, shift)
		if err != nil {
			return contradicted, err
		}
		findings = append(findings, finding)
	}
	e.result.FirstNew, e.result.Parent, e.result.Findings = &first, &parent, findings
	e.result.Class, e.result.Reasons = overall(findings)
	e.result.Reasons = append(e.result.Reasons, e.also...)
	return confirmed, nil
}

// classify has the pair classified, and a claim that rests on a single boot of
// the probe or the trace is made only when another boot repeats it.
func (e *Engine) classify(ctx context.Context, parent, first Commit, vcpus int, p pair, shift Shift) (Finding, error) {
	f := e.Judge.Classify(Evidence{VCPUs: vcpus, Old: p.old, New: p.new, Shift: shift})
	if !f.Repeat || !p.old.completed() || !p.new.completed() {
		return f, nil
	}
	for _, side := range []struct {
		commit Commit
		into   *Observations
	}{{parent, &p.old}, {first, &p.new}} {
		o, err := e.observe(ctx, Boot{Commit: side.commit, VCPUs: vcpus, Profile: TraceBoot, Ordinal: freshOrdinal + 1})
		if err != nil {
			return f, err
		}
		*side.into = append(*side.into, o)
	}
	return e.Judge.Classify(Evidence{VCPUs: vcpus, Old: p.old, New: p.new, Shift: shift}), nil
}

// accounts tells whether the pair is where the metric moved: at least in the
// direction of the ends, and, if a signal led here that only goes with the
// metric, by half of the whole way or more.
func (e *Engine) accounts(guide Signal, here Shift) bool {
	ends := e.result.Ends[len(e.result.Ends)-1]
	if ends.Decision != Moved {
		return true // the walk was not after the metric
	}
	share := math.Log1p(here.Effect) / math.Log1p(ends.Effect)
	return here.Decision == Moved && (share >= 0.5 || share > 0 && guide.Kind == MetricSignal)
}

// agrees holds the fresh boots of the pair against the verdicts of the walk
// and writes down what they say where they differ.
func (e *Engine) agrees(guide Signal, parent, first Commit, p pair, verdicts map[string]Verdict) bool {
	agree := true
	check := func(c Commit, want Verdict, fresh Observations) {
		got, _ := e.Judge.Place(guide, e.ends.old, e.ends.new, fresh)
		if got == want || got == Unknown {
			return
		}
		verdicts[c.ID] = got
		agree = false
	}
	check(parent, Old, p.old)
	check(first, New, p.new)
	return agree
}

// overall names the class of the whole change: a regression at any vCPU count
// is one; else the first count that shows a change names it.
func overall(findings []Finding) (Class, []string) {
	pick := findings[0]
	for _, f := range findings[1:] {
		settled := pick.Class != NotReproduced && pick.Class != Inconclusive
		if f.Class == Regression && pick.Class != Regression || !settled {
			pick = f
		}
	}
	reasons := slices.Clone(pick.Reasons)
	if counts := countsOf(findings, pick.Class); len(findings) > 1 {
		reasons = append(reasons, fmt.Sprintf("seen so at %s of the vCPU counts tested", counts))
	}
	return pick.Class, reasons
}

func countsOf(findings []Finding, c Class) string {
	var with []string
	for _, f := range findings {
		if f.Class == c {
			with = append(with, fmt.Sprint(f.VCPUs))
		}
	}
	if len(with) == len(findings) {
		return "all (" + strings.Join(with, ", ") + ")"
	}
	return strings.Join(with, ", ")
}
