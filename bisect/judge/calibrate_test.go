package judge

import (
	"testing"

	"bisectd/bisect"
	"bisectd/workloads"
	"bisectd/workloads/probes"
)

// TestCalibrated: under emulation a kernel is late only where the other one is
// not nearly as late, and a job's own bound stays what it is.
func TestCalibrated(t *testing.T) {
	name := probes.InterfaceLate("nanosleep")
	late := func(accel string, ns float64) bisect.Observations {
		i := workloads.Invariant{Name: name, Result: workloads.Pass, Value: ns, Bound: 20e6, Unit: "ns"}
		if i.Value > i.Bound {
			i.Result = workloads.Fail
		}
		obs := probing(workloads.ProbeRecord{Invariants: []workloads.Invariant{i}})
		obs[0].Fingerprint.Accel = accel
		return obs
	}
	own := 20e6
	for what, tt := range map[string]struct {
		accel    string
		checks   Overrides
		old, new float64
		want     workloads.Result
	}{
		"a slow host":               {"tcg", nil, 15e6, 25e6, workloads.Pass},
		"a coarse grid":             {"tcg", nil, 15e6, 250e6, workloads.Fail},
		"a fast host":               {"tcg", nil, 1e5, 25e6, workloads.Fail},
		"hardware":                  {"kvm", nil, 15e6, 25e6, workloads.Fail},
		"the job knows":             {"tcg", Overrides{name: {Bound: &own}}, 15e6, 25e6, workloads.Fail},
		"a parent that is late too": {"tcg", nil, 250e6, 260e6, workloads.Fail},
	} {
		j := &Judge{Checks: tt.checks}
		old, new := late(tt.accel, tt.old), late(tt.accel, tt.new)
		if got := j.invariantPair(name, old, new); got.New.Result != tt.want {
			t.Errorf("%s: %s, bound %g", what, got.New.Result, got.New.Bound)
		}
		mended := j.invariantPair(name, new, old)
		if want := tt.want; tt.old <= own && mended.Old.Result != want {
			t.Errorf("%s, the other way round: %s", what, mended.Old.Result)
		}
		s := bisect.Signal{Kind: bisect.InvariantSignal, Name: name}
		want := bisect.Old
		if tt.want == workloads.Fail && tt.old <= own {
			want = bisect.New
		}
		if got := j.Place(s, old, new, new).Verdict; got != want {
			t.Errorf("%s: placed as %s, want %s", what, got, want)
		}
	}
}
