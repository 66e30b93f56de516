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
	start, first := together()
	time.Sleep(interval)
	end, last := together()
	kHz := float64(last-first) / float64(end.Sub(start).Nanoseconds()) * 1e6
	return int(math.Round(kHz/step)) * step
}

// together reads both clocks at one moment: readings that the scheduler tore
// apart are made again.
func together() (time.Time, uint64) {
	const close, tries = 2 * time.Microsecond, 1000
	var at time.Time
	var counter uint64
	for range tries {
		before := time.Now()
		counter = rdtsc()
		if at = time.Now(); at.Sub(before) < close {
			break
		}
	}
	return at, counter
}
