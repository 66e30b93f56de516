package judge

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

const (
	// modalAt is the number of boots from which on two modes can be told
	// from one, and modalShare the least part of them in either mode.
	modalAt    = 10
	modalShare = 0.2
	// modalGap is the distance of the modes' means in standard deviations
	// within a mode (Ashman's D) from which on there are two. Twelve normal
	// values, cut at their widest gap, pass it once in a hundred samples.
	modalGap = 6.0
)

// bimodal tells whether boots fall into two groups, as when a host runs whole
// boots at one of two speeds.
func bimodal(v []float64) bool {
	if len(v) < modalAt {
		return false
	}
	v = slices.Sorted(slices.Values(v))
	least := max(2, int(modalShare*float64(len(v))))
	cut, widest := 0, 0.0
	for i := least; i <= len(v)-least; i++ {
		if gap := v[i] - v[i-1]; gap > widest {
			cut, widest = i, gap
		}
	}
	if cut == 0 {
		return false
	}
	ma, sa := stat.MeanStdDev(v[:cut], nil)
	mb, sb := stat.MeanStdDev(v[cut:], nil)
	within := max((sq(sa)+sq(sb))/2, sq(minSpread/3))
	return sq(mb-ma) > sq(modalGap)*within
}
