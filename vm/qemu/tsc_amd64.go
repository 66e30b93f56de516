package qemu

import (
	"math"
	"time"
)

// rdtsc reads the time stamp counter.
func rdtsc() uint64

// hostTSC returns the frequency of the host's time stamp counter in kHz, which
// is the frequency that a guest under TCG sees: QEMU hands its own counter
// through. It is measured, because /proc/cpuinfo tells the speed of the core,
// and that changes; it is rounded to 100 kHz, so that the guests' command
// lines are the same from one day to the next.
func hostTSC() int {
	const interval, step = 50 * time.Millisecond, 100
	start, first := time.Now(), rdtsc()
	time.Sleep(interval)
	elapsed, last := time.Since(start), rdtsc()
	kHz := float64(last-first) / float64(elapsed.Nanoseconds()) * 1e6
	return int(math.Round(kHz/step)) * step
}
