package runner

import (
	"strings"
	"testing"
	"time"

	"bisectd/blame"
	"bisectd/vm"
	"bisectd/vm/guest/proto"
)

// TestInjectedConditions: a boot under conditions that void it never becomes
// an observation, however often it is made, and the error says what was wrong.
func TestInjectedConditions(t *testing.T) {
	boot := func(change func(first, last *proto.Fingerprint, out *vm.Outcome)) func() (vm.Outcome, error) {
		return func() (vm.Outcome, error) {
			out, err := sound("tsc")()
			first, last := *out.Records[0].Fingerprint, *out.Records[2].Fingerprint
			last.UptimeNS = first.UptimeNS + int64(10*time.Second)
			change(&first, &last, &out)
			out.Records[0].Fingerprint, out.Records[2].Fingerprint = &first, &last
			return out, err
		}
	}
	for name, tt := range map[string]struct {
		change func(first, last *proto.Fingerprint, out *vm.Outcome)
		want   string
	}{
		"wrong clocksource": {func(first, last *proto.Fingerprint, _ *vm.Outcome) {
			first.Clocksource, last.Clocksource = "refined-jiffies", "refined-jiffies"
		}, "refined-jiffies"},
		"clocksource lost on the way": {func(_, last *proto.Fingerprint, _ *vm.Outcome) { last.Clocksource = "hpet" }, "tsc->hpet"},
		"20 % steal": {func(_, last *proto.Fingerprint, _ *vm.Outcome) { last.StealTicks = 200 },
			"the host took 20.0 % of the guest's time"},
		"20 % waited for the host and more": {func(_, _ *proto.Fingerprint, out *vm.Outcome) { out.Waited = 0.25 },
			"waited for a processor of the host for 25.0 %"},
	} {
		t.Run(name, func(t *testing.T) {
			var script []func() (vm.Outcome, error)
			for range 20 {
				script = append(script, boot(tt.change))
			}
			b := newBench(t, script...)
			o, err := b.Observe(t.Context(), metric("c1", "t1", 0))
			if blame.Of(err) != blame.Environment || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("observed %+v, error %v", o, err)
			}
			for key := range b.journal.finished {
				if strings.HasPrefix(key, bootEvent) {
					t.Errorf("%s was kept", key)
				}
			}
		})
	}
}
