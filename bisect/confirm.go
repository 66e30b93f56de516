package bisect

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

type confirmation int

const (
	contradicted confirmation = iota // fresh boots disagree with the walk: it goes on
	elsewhere                        // the guide is right, but the metric moved at another commit
	confirmed
)

// outcome is what fresh boots of a final pair say.
type outcome struct {
	confirmation
	Found
	boots pair  // at the count of the walk
	shift Shift // of the metric there
}

// confirm boots the final pair afresh at every vCPU count and classifies the
// change at each.
func (e *Engine) confirm(ctx context.Context, s *segment, guide Signal, parent, first Commit,
	verdicts map[string]Verdict) (outcome, error) {
	out := outcome{Found: Found{FirstNew: first, Parent: parent, Guide: guide}}
	counts := append([]int{e.vcpus}, slices.DeleteFunc(slices.Clone(e.Job.Machine.VCPUs),
		func(n int) bool { return n == e.vcpus })...)
	for _, n := range counts {
		e.Progress.tell(Update{Phase: Confirming, Commit: first, VCPUs: n})
		p, shift, err := e.compare(ctx, s, guide, parent, first, n)
		if err != nil {
			return out, err
		}
		if n == e.vcpus {
			if !e.agrees(s, guide, parent, first, p, verdicts) {
				s.pool = pair{} // a wrong verdict is in it
				return out, nil
			}
			if guide.Kind != CrashSignal && guide.Kind != InvariantSignal && !e.accounts(s, guide, shift) {
				out.confirmation = elsewhere
				return out, nil
			}
			out.boots, out.shift, out.Share = p, shift, e.share(shift)
		}
		finding, err := e.classify(ctx, parent, first, n, p, shift, freshOrdinal)
		if err != nil {
			return out, err
		}
		out.Findings = append(out.Findings, finding)
	}
	out.Class, out.Reasons = overall(out.Findings)
	out.confirmation = confirmed
	return out, nil
}

// compare makes the fresh boots of the final pair. For a crash that comes now
// and then those are as many as show it twice, and twice as many of the parent
// as made it Old in the walk: its absence is what the answer rests on.
func (e *Engine) compare(ctx context.Context, s *segment, guide Signal, parent, first Commit, vcpus int,
) (pair, Shift, error) {
	p, shift, err := e.measure(ctx, parent, first, vcpus, TraceBoot, freshOrdinal)
	if err != nil || guide.Kind != CrashSignal {
		return p, shift, err
	}
	more := func(c Commit, seen *Observations, enough func() bool) error {
		for n := seen.of(guide.Profile); n < maxCrashBoots && !enough(); n++ {
			o, err := e.observe(ctx, Boot{Commit: c, VCPUs: vcpus, Profile: guide.Profile, Ordinal: freshOrdinal + n})
			if err != nil {
				return err
			}
			*seen = append(*seen, o)
		}
		return nil
	}
	if err := more(first, &p.new, func() bool { return p.failures() > 1 }); err != nil {
		return p, shift, err
	}
	return p, shift, more(parent, &p.old, func() bool {
		boots := p.old.under(guide.Profile)
		return e.place(s, guide, boots[:len(boots)/2]).Verdict != Unknown || p.old.failed(guide.Profile)
	})
}

// under returns the boots of a profile.
func (o Observations) under(profile Profile) Observations {
	return slices.DeleteFunc(slices.Clone(o), func(b Observation) bool { return b.Profile != profile })
}

// classify has the pair classified. A claim that rests on a single boot of the
// probe or the trace is made only when another boot repeats it, and one that
// rests on a small shift alone only when aligned functions do not undo it.
func (e *Engine) classify(ctx context.Context, parent, first Commit, vcpus int, p pair, shift Shift, from int,
) (Finding, error) {
	evidence := Evidence{VCPUs: vcpus, Old: p.old, New: p.new, Shift: shift}
	f := e.Judge.Classify(evidence)
	if f.Repeat && p.failures() == 0 {
		if err := e.both(ctx, &p, parent, first, vcpus, TraceBoot, from+1); err != nil {
			return f, err
		}
		evidence.Old, evidence.New = p.old, p.new
		f = e.Judge.Classify(evidence)
	}
	if !e.Job.Verify.Layout || !mayBeLayout(f) {
		return f, nil
	}
	var err error
	if evidence.Padded, err = e.padded(ctx, parent, first, vcpus); err != nil {
		return f, err
	}
	return e.Judge.Classify(evidence), nil
}

// accounts tells whether the pair is where the metric moved: at least in the
// direction of the segment's ends, and, if a signal led here that only goes
// with the metric, by half of the whole way or more.
func (e *Engine) accounts(s *segment, guide Signal, here Shift) bool {
	if s.shift.Decision != Moved {
		return true // the walk was not after the metric
	}
	share := ratio(here, s.shift)
	return here.Decision == Moved && (share >= 0.5 || share > 0 && guide.Kind == MetricSignal)
}

// share is the part of the shift between the ends of the job that a shift
// makes up, on the logarithmic scale on which shifts add up; 0 where the ends
// do not differ.
func (e *Engine) share(here Shift) float64 {
	whole := e.result.Ends[len(e.result.Ends)-1]
	if whole.Decision != Moved {
		return 0
	}
	return ratio(here, whole)
}

func ratio(part, whole Shift) float64 { return math.Log1p(part.Effect) / math.Log1p(whole.Effect) }

// agrees holds the fresh boots of the pair against the verdicts of the walk
// and writes down what they say where they differ.
func (e *Engine) agrees(s *segment, guide Signal, parent, first Commit, p pair, verdicts map[string]Verdict) bool {
	agree := true
	check := func(c Commit, want Verdict, fresh Observations) {
		got := e.place(s, guide, fresh).Verdict
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
