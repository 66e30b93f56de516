package judge

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"bisectd/bisect"
	"bisectd/workloads"
)

const (
	// clip bounds what a single boot can say, in nats, so that one outlier
	// never decides a commit: two boots are the least.
	clip = 3.0
	// Ends of two modes each are told apart by more boots, at a smaller
	// chance of error: a few boots in a row can all be of the rarer mode.
	modalBoots = 3
	modalError = 0.001
)

// placeMetric is a sequential probability ratio test (Wald 1945) of the
// commit's boots between the levels of the ends, every boot's evidence
// clipped. A commit that is at neither end's level is New: it differs from the
// old one, and what comes behind it is another change.
func (j *Judge) placeMetric(old, new, commit bisect.Observations) bisect.Placement {
	a, _ := values(old, j.Metric)
	b, _ := values(new, j.Metric)
	x, kind := values(commit, j.Metric)
	if len(x) == 0 || len(a) < 2 || len(b) < 2 {
		return bisect.Placement{Verdict: bisect.Skip, Detail: j.Metric + " was not measured"}
	}
	e := levels(logs(a), logs(b))
	var evidence float64
	for _, v := range logs(x) {
		evidence += max(-clip, min(clip, e.evidence(v)))
	}
	bound, least := j.bound(logs(a), logs(b))
	at := func(v []float64) string { return workloads.Quantity(stat.Mean(v, nil), kind.Unit) }
	p := bisect.Placement{Detail: fmt.Sprintf("%s %s over %d boots (ends %s and %s)",
		j.Metric, at(x), len(x), at(a), at(b))}
	switch {
	case len(x) < least:
	case j.between(e, logs(x)):
		p.Verdict, p.Between = bisect.New, true
		p.Detail += ", a level of its own"
	case evidence >= bound:
		p.Verdict = bisect.New
	case evidence <= -bound:
		p.Verdict = bisect.Old
	}
	return p
}

// bound returns the evidence that decides a commit, in nats, and the fewest
// boots.
func (j *Judge) bound(a, b []float64) (float64, int) {
	alpha, least := walkLeniency*j.Error/float64(max(j.Steps, 1)), 2
	if bimodal(a) || bimodal(b) {
		alpha, least = min(alpha, modalError), modalBoots
	}
	return math.Log((1 - alpha) / alpha), least
}

// twoLevels are the ends of a segment, on the logarithmic scale. One spread
// serves both: with two, what lies far beyond the quieter end would count for
// the noisier one, whatever its direction.
type twoLevels struct {
	old, new float64
	sd       float64 // of the next boot at either end
}

// levels estimates the ends. The spread allows for the ends' own uncertainty,
// and for that of a spread from few boots as Student's t does.
func levels(a, b []float64) twoLevels {
	ma, sa := centre(a)
	mb, sb := centre(b)
	na, nb := float64(len(a)), float64(len(b))
	nu := max(na+nb-2, 1)
	pooled := max(math.Sqrt((sq(sa)*max(na-1, 1)+sq(sb)*max(nb-1, 1))/nu), minSpread)
	small := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: nu}.Quantile(0.975) / distuv.UnitNormal.Quantile(0.975)
	return twoLevels{old: ma, new: mb, sd: pooled * small * math.Sqrt(1+1/min(na, nb))}
}

// evidence is the logarithm of how much likelier a value is at the new end.
func (l twoLevels) evidence(x float64) float64 {
	return (l.new - l.old) * (x - (l.old+l.new)/2) / sq(l.sd)
}

// betweenBoots is how many boots tell a level between the ends from the
// scatter of one of them, and betweenConfidence how surely.
const (
	betweenBoots      = 4
	betweenConfidence = 0.999
)

// between tells whether the boots agree on a level that is neither end's.
func (j *Judge) between(e twoLevels, x []float64) bool {
	if len(x) < betweenBoots {
		return false
	}
	m, sd := centre(x)
	// The ends' own spread holds up that of few boots.
	se := max(sd, 0.8*e.sd) / math.Sqrt(float64(len(x)))
	room := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(x) - 1)}.Quantile(0.5+betweenConfidence/2) * se
	room = max(room, math.Log1p(j.MinEffect)/2)
	return m > min(e.old, e.new)+room && m < max(e.old, e.new)-room
}

// Boots at each end before a walk on the metric. The nearer the ends, the
// more a badly known one misleads every test of the walk; at ten standard
// deviations nothing can.
const (
	nearEnds, nearBoots = 5.0, 8
	farEnds, farBoots   = 10.0, 6
	// tooNear is where a commit would take more boots than anybody has: sixteen
	// times as many as at four standard deviations.
	tooNear = 1.0
)

// anchored tells whether the ends are known well enough to walk on the metric.
func (j *Judge) anchored(old, new bisect.Observations) bool {
	a, _ := values(old, j.Metric)
	b, _ := values(new, j.Metric)
	n := min(len(a), len(b))
	if n < 2 {
		return true // they cannot be measured, however often
	}
	d := separation(logs(a), logs(b))
	switch {
	case d >= farEnds:
		return true
	case d >= nearEnds:
		return n >= farBoots
	default:
		return n >= nearBoots
	}
}

// hopeless says why no walk on the metric can be afforded, or nothing.
func (j *Judge) hopeless(old, new bisect.Observations) string {
	a, _ := values(old, j.Metric)
	b, _ := values(new, j.Metric)
	if len(a) < 2 || len(b) < 2 {
		return ""
	}
	if d := separation(logs(a), logs(b)); d < tooNear {
		return fmt.Sprintf("the ends are only %.1f standard deviations of a boot apart in %s: "+
			"run the workload for longer, keep other work off the host, or take another metric", d, j.Metric)
	}
	return ""
}

// separation is the distance of two sets of boots in standard deviations of a
// boot.
func separation(a, b []float64) float64 {
	ma, sa := centre(a)
	mb, sb := centre(b)
	return math.Abs(mb-ma) / max(math.Sqrt((sq(sa)+sq(sb))/2), minSpread)
}

// driftSigma is the distance, in standard deviations, at which the two ends
// measured again say that the host has changed.
const driftSigma = 3.0

// Drifted tells whether boots of the ends made during the walk disagree with
// the ends as they were. A host that became slower or faster moves both alike;
// a single outlier moves one.
func (j *Judge) Drifted(old, new, oldNow, newNow bisect.Observations) bool {
	a, b := logs(first(values(oldNow, j.Metric))), logs(first(values(newNow, j.Metric)))
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	e := levels(logs(first(values(old, j.Metric))), logs(first(values(new, j.Metric))))
	za, zb := (stat.Mean(a, nil)-e.old)/e.sd, (stat.Mean(b, nil)-e.new)/e.sd
	both := math.Abs(za+zb) / math.Sqrt2
	return za*zb > 0 && min(math.Abs(za), math.Abs(zb)) > 1 && both > driftSigma
}

func first(v []float64, _ workloads.Metric) []float64 { return v }
