package bisect

import (
	"context"
	"slices"
)

// Looks are the numbers of boots a side at which a comparison of the metric is
// judged. Each look is a chance to be wrong, so there are few of them: three
// boots a side are the fewest that give a spread, and twenty bound the bill of
// a metric that never becomes clear.
var Looks = []int{3, 4, 6, 8, 11, 15, maxBoots}

const (
	maxBoots = 20
	minBoots = 3
	// maxAnchors bounds the boots of an end before a walk.
	maxAnchors = 40
)

// Ordinals of boots that must not be those of the calibration: of the ends
// during a walk, of the ends after the host changed, of the confirmation, and
// of the ends of a part of the range.
const (
	sentinelOrdinal = 50
	freshOrdinal    = 100
	furtherOrdinal  = 200
	againOrdinal    = 300
)

type bootID struct {
	commit  string
	vcpus   int
	profile Profile
	ordinal int
	variant Variant
	only    string
}

// pair holds the observations of two commits.
type pair struct{ old, new Observations }

// observe asks the tester once for each boot.
func (e *Engine) observe(ctx context.Context, b Boot) (Observation, error) {
	id := bootID{b.Commit.ID, b.VCPUs, b.Profile, b.Ordinal, b.Variant, b.Only}
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

// both boots two commits once each and adds what was seen to p. The order
// alternates (ABBA): a drift of the host falls on both sides alike.
func (e *Engine) both(ctx context.Context, p *pair, old, new Commit, vcpus int, profile Profile, ordinal int) error {
	sides := []struct {
		commit Commit
		into   *Observations
	}{{old, &p.old}, {new, &p.new}}
	if ordinal%2 == 1 {
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

// measure boots old and new alternately: one boot of the profile lead each,
// then metric boots until the shift is clear or maxBoots are made. A side
// that does not complete is not booted again and again.
func (e *Engine) measure(ctx context.Context, old, new Commit, vcpus int, lead Profile, from int) (pair, Shift, error) {
	var p pair
	shift := e.Judge.Shift(nil, nil)
	for i := range minBoots { // a failure seen once is no signal yet
		if err := e.both(ctx, &p, old, new, vcpus, lead, from+i); err != nil {
			return p, shift, err
		}
		if p.failures() == 0 {
			break
		}
	}
	for i := 0; i < maxBoots && !p.old.failed(lead) && !p.new.failed(lead); i++ {
		if err := e.both(ctx, &p, old, new, vcpus, MetricBoot, from+i); err != nil {
			return p, shift, err
		}
		if !slices.Contains(Looks, i+1) {
			continue
		}
		shift = e.Judge.Shift(p.old, p.new)
		if p.failures() > 1 || shift.Decision != Unclear {
			break
		}
	}
	return p, shift, nil
}

// anchor boots the ends until they are known well enough to walk on guide.
func (e *Engine) anchor(ctx context.Context, s *segment, guide Signal) error {
	for n := s.ends.old.of(guide.Profile); n < maxAnchors && !e.Judge.Anchored(guide, s.ends.old, s.ends.new); n++ {
		if err := e.both(ctx, &s.ends, s.old, s.new, e.vcpus, guide.Profile, s.from+n); err != nil {
			return err
		}
	}
	return nil
}

// of counts the boots of a profile.
func (o Observations) of(profile Profile) int {
	n := 0
	for _, b := range o {
		if b.Profile == profile {
			n++
		}
	}
	return n
}

// failed tells whether a boot of the profile did not come to its end.
func (o Observations) failed(profile Profile) bool {
	return slices.ContainsFunc(o, func(b Observation) bool { return b.Profile == profile && b.Ending != Completed })
}

// failures counts the boots that did not come to their end.
func (p pair) failures() int {
	n := 0
	for _, b := range slices.Concat(p.old, p.new) {
		if b.Ending != Completed {
			n++
		}
	}
	return n
}
