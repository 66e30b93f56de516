package judge

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"bisectd/bisect"
	"bisectd/workloads"
)

const (
	// confidence of "moved": the interval that must exclude zero. It is
	// stricter than the 95 % that reports print, because three boots a side
	// underestimate the spread every so often.
	confidence = 0.99
	// clip bounds what a single boot can say, in nats, so that one outlier
	// never decides a commit: two boots are the least.
	clip = 3.0
	// minSpread is the least standard deviation assumed of log values. Boots
	// that happen to agree to a tenth of a percent prove no such precision.
	minSpread = 0.01
)

// values returns one number a boot, the median of its executions, and the
// metric they are of.
func values(obs bisect.Observations, metric string) ([]float64, workloads.Metric) {
	var boots []float64
	var kind workloads.Metric
	for _, o := range obs {
		if o.Ending != bisect.Completed || o.Profile != bisect.MetricBoot {
			continue
		}
		var runs []float64
		for _, s := range o.Samples {
			if m, ok := s.Metric(metric); ok {
				runs = append(runs, m.Value)
				kind = m
			}
		}
		if len(runs) > 0 {
			boots = append(boots, median(runs))
		}
	}
	return boots, kind
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// logs returns the logarithms: effects are ratios. Values at or below zero
// carry none and are raised to a billionth of the largest.
func logs(v []float64) []float64 {
	least := slices.Max(v) * 1e-9
	if least <= 0 {
		least = 1e-9
	}
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = math.Log(max(x, least))
	}
	return out
}

// Shift compares the metric between two sets of boots by Welch's t on the
// logarithms of the boots' values.
func (j *Judge) Shift(old, new bisect.Observations) bisect.Shift {
	a, kind := values(old, j.Metric)
	b, _ := values(new, j.Metric)
	s := bisect.Shift{Metric: j.Metric, Unit: kind.Unit, Better: kind.Better, Decision: bisect.Unclear,
		Old: level(a), New: level(b)}
	if len(a) < 2 || len(b) < 2 {
		return s
	}
	diff, se, nu := welch(logs(a), logs(b))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: nu}
	wide := t.Quantile(0.5+confidence/2) * se
	shown := t.Quantile(0.975) * se
	s.Effect, s.Low, s.High = math.Expm1(diff), math.Expm1(diff-shown), math.Expm1(diff+shown)
	switch least := math.Log1p(j.MinEffect); {
	case math.Abs(diff) >= least && math.Abs(diff) > wide:
		s.Decision = bisect.Moved
	case math.Abs(diff)+shown < least:
		s.Decision = bisect.Same
	}
	return s
}

// welch returns the difference of means b - a, its standard error and the
// degrees of freedom (Welch-Satterthwaite).
func welch(a, b []float64) (diff, se, nu float64) {
	ma, sa := stat.MeanStdDev(a, nil)
	mb, sb := stat.MeanStdDev(b, nil)
	na, nb := float64(len(a)), float64(len(b))
	va, vb := sq(max(sa, minSpread))/na, sq(max(sb, minSpread))/nb
	return mb - ma, math.Sqrt(va + vb), sq(va+vb) / (sq(va)/(na-1) + sq(vb)/(nb-1))
}

func sq(x float64) float64 { return x * x }

func level(v []float64) bisect.Level {
	l := bisect.Level{Boots: v}
	switch len(v) {
	case 0:
	case 1:
		l.Mean = v[0]
	default:
		l.Mean, l.SD = stat.MeanStdDev(v, nil)
	}
	return l
}

// placeMetric is a sequential probability ratio test (Wald 1945) of the
// commit's boots between the predictive Student-t distributions of the ends,
// every boot's evidence clipped.
func (j *Judge) placeMetric(old, new, commit bisect.Observations) (bisect.Verdict, string) {
	a, _ := values(old, j.Metric)
	b, _ := values(new, j.Metric)
	x, kind := values(commit, j.Metric)
	if len(x) == 0 {
		return bisect.Skip, j.Metric + " was not measured"
	}
	before, after := predictive(logs(a), logs(b))
	var evidence float64
	low, high := min(before.Mu, after.Mu), max(before.Mu, after.Mu)
	for _, v := range logs(x) {
		v = max(low, min(v, high)) // what lies beyond an end is that end's, however wide the other one's tail
		evidence += max(-clip, min(clip, after.LogProb(v)-before.LogProb(v)))
	}
	alpha := j.Error / float64(max(j.Steps, 1))
	bound := math.Log((1 - alpha) / alpha)
	at := func(v []float64) string { return workloads.Quantity(stat.Mean(v, nil), kind.Unit) }
	detail := fmt.Sprintf("%s %s over %d boots (ends %s and %s)", j.Metric, at(x), len(x), at(a), at(b))
	switch {
	case evidence >= bound:
		return bisect.New, detail
	case evidence <= -bound:
		return bisect.Old, detail
	default:
		return bisect.Unknown, detail
	}
}

// predictive returns the distributions of the next boot at either end. The
// spread of few boots is badly known: each end's is held up by the pooled one.
func predictive(a, b []float64) (before, after distuv.StudentsT) {
	ma, sa := stat.MeanStdDev(a, nil)
	mb, sb := stat.MeanStdDev(b, nil)
	pooled := math.Sqrt((sq(sa) + sq(sb)) / 2)
	at := func(mu, sd float64, n int) distuv.StudentsT {
		sd = max(sd, 0.6*pooled, minSpread) * math.Sqrt(1+1/float64(n))
		return distuv.StudentsT{Mu: mu, Sigma: sd, Nu: float64(max(n-1, 1))}
	}
	return at(ma, sa, len(a)), at(mb, sb, len(b))
}
