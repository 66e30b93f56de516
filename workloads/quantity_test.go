package workloads

import (
	"math"
	"testing"
)

func TestQuantity(t *testing.T) {
	for _, test := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "ns", "0 ns"}, {1, "ns", "1 ns"}, {999, "ns", "999 ns"}, {1000, "ns", "1 µs"}, {-1500, "ns", "-1.5 µs"},
		{91_234, "ns", "91.23 µs"}, {999_960, "ns", "1 ms"}, {249_812_345, "ns", "249.8 ms"}, {1.5e9, "ns", "1.5 s"},
		{3.6e12, "ns", "3600 s"}, {5010.4, "ops/s", "5010 ops/s"}, {1234567, "ops/s", "1234567 ops/s"},
		{0.998, "", "0.998"}, {12.3456, "%", "12.35 %"}, {100, "", "100"}, {0.00001234, "s", "1.234e-05 s"},
		{1e20, "", "1e+20"}, {math.NaN(), "ns", "n/a ns"}, {math.Inf(1), "", "n/a"},
	} {
		if got := Quantity(test.v, test.unit); got != test.want {
			t.Errorf("Quantity(%v, %q) = %q, want %q", test.v, test.unit, got, test.want)
		}
	}
}
