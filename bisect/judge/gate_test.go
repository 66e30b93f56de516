package judge

import (
	"strings"
	"testing"
	"time"

	"bisectd/bisect"
)

func TestGate(t *testing.T) {
	sound := bisect.Fingerprint{Clocksource: "tsc", HighRes: true, Resolution: time.Nanosecond, CPUs: 2, Drift: 0.001}
	tests := []struct {
		name   string
		change func(*bisect.Fingerprint)
		want   string
	}{
		{"sound", func(*bisect.Fingerprint) {}, ""},
		{"kvm-clock", func(f *bisect.Fingerprint) { f.Clocksource = "kvm-clock" }, ""},
		{"before the refinement", func(f *bisect.Fingerprint) { f.Clocksource = "tsc-early" }, ""},
		{"TSC calibration failed", func(f *bisect.Fingerprint) { f.Clocksource = "refined-jiffies" }, "refined-jiffies"},
		{"TSC rejected on two vCPUs", func(f *bisect.Fingerprint) { f.Clocksource = "hpet" }, "hpet"},
		{"clocksource changed in the run", func(f *bisect.Fingerprint) { f.Clocksource = "tsc->hpet" }, "tsc->hpet"},
		{"no fingerprint", func(f *bisect.Fingerprint) { *f = bisect.Fingerprint{} }, "clocksource"},
		{"low resolution", func(f *bisect.Fingerprint) { f.Resolution = 4 * time.Millisecond }, "high-resolution"},
		{"mode off", func(f *bisect.Fingerprint) { f.HighRes = false }, "high-resolution"},
		{"a vCPU is missing", func(f *bisect.Fingerprint) { f.CPUs = 1 }, "1 vCPUs are online, 2"},
		{"stolen time", func(f *bisect.Fingerprint) { f.Steal = 0.2 }, "20.0 %"},
		{"clock slow", func(f *bisect.Fingerprint) { f.Drift = -0.02 }, "-2.00 %"},
		{"clock fast", func(f *bisect.Fingerprint) { f.Drift = 0.02 }, "+2.00 %"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := sound
			tt.change(&f)
			got := Gate(f, 2)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("Gate() = %q, want %q in it", got, tt.want)
			}
		})
	}
}
