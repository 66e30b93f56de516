package judge

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"bisectd/bisect"
)

// confidence of "moved" at each of the looks that the engine takes
// (bisect.Looks): the interval that must exclude zero. With the seven looks
// of one comparison it keeps the chance that equal kernels are called
// different below 5 % (Bonferroni); `make simulate` measures it.
const confidence = 0.993

// Shift compares the metric between two sets of boots by Welch's t on the
// logarithms of the boots' values, outliers pulled in.
func (j *Judge) Shift(old, new bisect.Observations) bisect.Shift {
	a, kind := values(old, j.Metric)
	b, other := values(new, j.Metric)
	if kind.Name == "" {
		kind = other
	}
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
	ma, sa := centre(a)
	mb, sb := centre(b)
	na, nb := float64(len(a)), float64(len(b))
	va, vb := sq(max(sa, minSpread))/na, sq(max(sb, minSpread))/nb
	return mb - ma, math.Sqrt(va + vb), sq(va+vb) / (sq(va)/(na-1) + sq(vb)/(nb-1))
}
