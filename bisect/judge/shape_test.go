package judge

import (
	"math/rand/v2"
	"testing"
)

// TestBimodal draws boots of one mode, and of two that are far apart: the
// first must rarely be taken for two, the second mostly.
func TestBimodal(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	found := func(share, gap float64) int {
		hits := 0
		for range 1000 {
			v := make([]float64, 12)
			for i := range v {
				v[i] = 0.03 * random.NormFloat64()
				if random.Float64() < share {
					v[i] -= 0.03 * gap
				}
			}
			if bimodal(v) {
				hits++
			}
		}
		return hits
	}
	if n := found(0, 0); n > 20 {
		t.Errorf("one mode is called two in %d of 1000 samples", n)
	}
	if n := found(0.4, 12); n < 800 {
		t.Errorf("two modes are found in %d of 1000 samples only", n)
	}
}
