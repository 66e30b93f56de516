package workloads

import (
	"math"
	"strconv"
	"strings"
)

// Quantity writes a value with its unit. Nanoseconds become the unit in which
// they are easiest to read.
func Quantity(v float64, unit string) string {
	if unit == "ns" {
		for _, step := range []struct {
			size float64
			unit string
		}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
			// 999.96 µs would round to 1000 µs.
			if math.Abs(v) >= 0.9995*step.size {
				return Number(v/step.size) + " " + step.unit
			}
		}
	}
	return strings.TrimRight(Number(v)+" "+unit, " ")
}

// Number writes four significant digits, without an exponent where people
// would not write one.
func Number(v float64) string {
	size := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "n/a"
	case size >= 1e15 || v != 0 && size < 1e-4:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case size >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	digits := 3 - max(0, int(math.Floor(math.Log10(max(size, 1)))))
	text := strconv.FormatFloat(v, 'f', digits, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
