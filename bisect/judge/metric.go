package judge

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"bisectd/bisect"
	"bisectd/workloads"
)

// minSpread is the least standard deviation assumed of log values. Boots that
// happen to agree to a tenth of a percent prove no such precision.
const minSpread = 0.01

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
	if len(v) == 0 {
		return nil
	}
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

// trimAt is the number of values from which on an outlier can be told from
// the spread, and trimWidth how many robust standard deviations from the
// median a value may be before it is pulled in to there.
const (
	trimAt    = 6
	trimWidth = 3.0
)

// tame pulls outliers in: one boot in twenty that the host disturbed must
// neither move a mean nor double a spread. Values of a normal distribution
// stay as they are but for one in 400.
func tame(v []float64) []float64 {
	if len(v) < trimAt {
		return v
	}
	m, room := median(v), trimWidth*max(deviation(v), minSpread)
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = max(m-room, min(m+room, x))
	}
	return out
}

// deviation is the median absolute deviation, scaled to the standard
// deviation of a normal distribution (1/Phi^-1(3/4)).
func deviation(v []float64) float64 {
	m := median(v)
	apart := make([]float64, len(v))
	for i, x := range v {
		apart[i] = math.Abs(x - m)
	}
	return 1.4826 * median(apart)
}

// centre returns mean and standard deviation of values without outliers. A
// single value has no spread.
func centre(v []float64) (mean, sd float64) {
	if len(v) == 0 {
		return math.NaN(), 0
	}
	if v = tame(v); len(v) == 1 {
		return v[0], 0
	}
	return stat.MeanStdDev(v, nil)
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
