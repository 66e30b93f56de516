package judge

import (
	"testing"
	"time"

	"bisectd/bisect"
	"bisectd/workloads"
)

// fair is a boot that keeps every law about boots.
func fair() bisect.Fingerprint {
	return bisect.Fingerprint{Clocksource: "tsc", HighRes: true, Resolution: 1, CPUs: 2,
		Settings: map[string]string{"governor": "menu"}}
}

// sampled is a measured boot with one execution of a second.
func sampled(change func(*workloads.Sample)) bisect.Observations {
	s := workloads.Sample{Ops: 100, Wall: time.Second, User: time.Second / 2, Switches: 10, Version: "one",
		Metrics: []workloads.Metric{{Name: "bogo_ops_per_s", Value: 100}, {Name: "overruns_per_s", Value: 900},
			{Name: "ticks_per_s", Value: 1000}}}
	change(&s)
	return bisect.Observations{{Profile: bisect.MetricBoot, Ending: bisect.Completed, Fingerprint: fair(),
		Samples: []workloads.Sample{s}}}
}

func traced(change func(*bisect.Observation)) bisect.Observations {
	o := bisect.Observation{Profile: bisect.TraceBoot, Ending: bisect.Completed,
		Samples: []workloads.Sample{{Ops: 1000, Signals: 1000}},
		Tally: &workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
			"posix_timer_fn": {Start: 1000, Expire: 1000, Timers: 1}}}}
	change(&o)
	return bisect.Observations{o}
}

func printed(change func(*bisect.Fingerprint)) Case {
	f := fair()
	change(&f)
	return Case{VCPUs: 2, New: bisect.Observations{{Fingerprint: f}}}
}

func probing(r workloads.ProbeRecord) bisect.Observations {
	return bisect.Observations{{Profile: bisect.ProbeBoot, Ending: bisect.Completed, Probe: r}}
}

// records returns for each law a case that keeps it and one that breaks it.
func records() map[string][2]Case {
	same := func(*workloads.Sample) {}
	samples := func(change func(*workloads.Sample)) [2]Case {
		return [2]Case{{Old: sampled(same), New: sampled(same)}, {Old: sampled(same), New: sampled(change)}}
	}
	prints := func(change func(*bisect.Fingerprint)) [2]Case {
		return [2]Case{printed(func(*bisect.Fingerprint) {}), printed(change)}
	}
	tally := func(change func(*bisect.Observation)) [2]Case {
		return [2]Case{{New: traced(func(*bisect.Observation) {})}, {New: traced(change)}}
	}
	all := map[string][2]Case{
		lawInstrument: tally(func(o *bisect.Observation) { o.Tally.Dropped = 1 }),
		lawSignals:    tally(func(o *bisect.Observation) { o.Samples[0].Signals = 2000 }),
		lawConserved: tally(func(o *bisect.Observation) {
			o.Tally.Callbacks["posix_timer_fn"] = workloads.Lives{Start: 2000, Expire: 1000}
		}),
		lawClocksource: prints(func(f *bisect.Fingerprint) { f.Clocksource = "hpet" }),
		lawHighRes:     prints(func(f *bisect.Fingerprint) { f.Resolution = 4e6 }),
		lawCPUs:        prints(func(f *bisect.Fingerprint) { f.CPUs = 1 }),
		lawSteal:       prints(func(f *bisect.Fingerprint) { f.Steal = 0.2 }),
		lawWait:        prints(func(f *bisect.Fingerprint) { f.Waited = 0.5 }),
		lawDrift:       prints(func(f *bisect.Fingerprint) { f.Drift = -0.02 }),
		lawIdentity:    samples(func(s *workloads.Sample) { s.Version = "two" }),
		lawHealth:      samples(func(s *workloads.Sample) { s.Metrics = nil }),
		lawParts:       samples(func(s *workloads.Sample) { s.Metrics[2].Value = 1100 }),
		lawAccounting:  samples(func(s *workloads.Sample) { s.Metrics[2].Value = 900 }),
		lawEfficiency:  samples(func(s *workloads.Sample) { s.User = time.Second }),
		lawMix: {
			{Old: append(sampled(same), traced(func(*bisect.Observation) {})...), New: append(sampled(same), traced(func(*bisect.Observation) {})...)},
			{Old: sampled(same), New: sampled(func(s *workloads.Sample) { s.Switches = 90 })}},
		lawSettings: samples(same),
	}
	other := sampled(same)
	other[0].Fingerprint.Settings = map[string]string{"governor": "teo"}
	all[lawSettings] = [2]Case{all[lawSettings][0], {Old: sampled(same), New: other}}
	for _, l := range promises()[1:] {
		pass := workloads.Invariant{Name: l.Name, Result: workloads.Pass, Value: l.Bound, Bound: l.Bound, Unit: l.Unit}
		fail := pass
		fail.Result, fail.Value = workloads.Fail, 2*l.Bound+1
		all[l.Name] = [2]Case{{New: probing(workloads.ProbeRecord{Invariants: []workloads.Invariant{pass}})},
			{New: probing(workloads.ProbeRecord{Invariants: []workloads.Invariant{fail}})}}
	}
	for _, l := range markers() {
		side := func(seen bool) bisect.Observations {
			return probing(workloads.ProbeRecord{Markers: []workloads.Marker{{Name: l.Name, Measured: true, Clear: true, Seen: seen}}})
		}
		all[l.Name] = [2]Case{{Old: side(true), New: side(true)}, {Old: side(true), New: side(false)}}
	}
	return all
}

// TestLaws holds each law to a case that keeps it, to one that breaks it, to
// one without any record, and to a job that turns it off or widens its bound.
func TestLaws(t *testing.T) {
	cases, named := records(), map[string]bool{}
	for _, l := range Laws() {
		t.Run(l.ID+" "+l.Name, func(t *testing.T) {
			if named[l.Name] {
				t.Fatal("two laws have this name")
			}
			named[l.Name] = true
			c, ok := cases[l.Name]
			if !ok {
				t.Fatal("no case")
			}
			j := &Judge{}
			if why := j.Breach(l, c[0]); why != "" {
				t.Errorf("kept, and yet: %s", why)
			}
			why := j.Breach(l, c[1])
			if why == "" {
				t.Error("broken, and not a word")
			}
			t.Log(why)
			if l.Domain != Conditions && j.Breach(l, Case{}) != "" {
				t.Errorf("nothing was measured, and yet: %s", j.Breach(l, Case{}))
			}
			j.Checks = Overrides{l.Name: {Off: true}}
			if why := j.Breach(l, c[1]); why != "" {
				t.Errorf("turned off, and yet: %s", why)
			}
			if l.Unit == "" {
				return
			}
			wide := 1e12
			j.Checks = Overrides{l.Name: {Bound: &wide}}
			if why := j.Breach(l, c[1]); why != "" {
				t.Errorf("within the job's bound, and yet: %s", why)
			}
		})
	}
}
