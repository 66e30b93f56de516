package runner

import (
	"fmt"
	"time"

	"bisectd/bisect"
	"bisectd/blame"
	"bisectd/vm"
	"bisectd/vm/guest/proto"
	"bisectd/workloads"
	"bisectd/workloads/hrtimer"
	"bisectd/workloads/probes"
)

// userHZ is the unit of /proc/stat on every architecture bisectd boots (proc_stat(5)).
const userHZ = 100

// read turns what the guest said into an observation. Its error is the
// workload's or the environment's blame.
func (p payload) read(out vm.Outcome) (bisect.Observation, error) {
	o := bisect.Observation{Ending: ending(out.Ending), Detail: out.Detail, Spoke: out.Spoke, Startup: out.Boot}
	if o.Ending != bisect.Completed {
		return o, nil
	}
	o.Fingerprint = fingerprint(out.Records)
	o.Fingerprint.Workload, o.Fingerprint.Waited = p.version, out.Waited
	var hists []hrtimer.Hist
	for _, rec := range out.Records {
		switch {
		case rec.Step != nil:
			if rec.Step.TimedOut {
				o.Ending, o.Detail = bisect.Hung, fmt.Sprintf("%s did not end in %v of guest time",
					rec.Step.ID, time.Duration(rec.Step.WallNS).Round(time.Millisecond))
				return o, nil
			}
			if err := p.readStep(*rec.Step, &o); err != nil {
				return o, err
			}
		case rec.Hist != nil:
			if rec.Hist.Error != "" {
				return o, blame.Errorf(blame.Environment, "trace of %s: %s", rec.Hist.Event, rec.Hist.Error)
			}
			hists = append(hists, hrtimer.Hist{Event: rec.Hist.Event, Format: rec.Hist.Format, Text: rec.Hist.Text})
		case rec.End != nil && rec.End.Error != "":
			return o, blame.Errorf(blame.Infrastructure, "the agent in the guest failed: %s", rec.End.Error)
		}
	}
	if len(hists) > 0 {
		tally, err := hrtimer.Parse(hists)
		if err != nil {
			return o, blame.Errorf(blame.Environment, "trace: %w", err)
		}
		if len(tally.Callbacks) == 0 {
			return o, blame.Errorf(blame.Environment, "trace: no timer was started while the workload ran")
		}
		o.Tally = &tally
	}
	return o, nil
}

func (p payload) readStep(s proto.StepResult, o *bisect.Observation) error {
	if s.Error != "" {
		return blame.Errorf(blame.Workload, "%s could not be started in the guest: %s", s.ID, s.Error)
	}
	if s.ID == probeStep {
		rec, err := probes.Parse(s.Stdout)
		if err != nil {
			return blame.Errorf(blame.Workload, "%s exited with %d: %w", s.ID, s.Exit, err)
		}
		o.Probe = rec
		return nil
	}
	sample, err := p.workload.Parse(workloads.Output{Exit: s.Exit, Stdout: s.Stdout, Stderr: s.Stderr,
		Wall: time.Duration(s.WallNS), User: time.Duration(s.UserNS), System: time.Duration(s.SystemNS)})
	if err != nil {
		return fmt.Errorf("%s: %w", s.ID, err)
	}
	sample.Version, sample.Switches = p.version, float64(s.Voluntary)
	o.Samples = append(o.Samples, sample)
	return nil
}

func ending(e vm.Ending) bisect.Ending {
	switch e {
	case vm.Completed:
		return bisect.Completed
	case vm.NoBoot:
		return bisect.NoBoot
	case vm.Hung:
		return bisect.Hung
	default: // vm.QEMUFailed comes as an error, never as an outcome
		return bisect.Crashed
	}
}

// fingerprint joins the fingerprints taken before and after the steps.
func fingerprint(records []vm.Stamped) bisect.Fingerprint {
	var first, last *proto.Fingerprint
	for _, rec := range records {
		if rec.Fingerprint == nil {
			continue
		}
		if first == nil {
			first = rec.Fingerprint
		}
		last = rec.Fingerprint
	}
	if first == nil {
		return bisect.Fingerprint{}
	}
	f := bisect.Fingerprint{
		Release: first.Release, Clockevent: first.Clockevent,
		HighRes: first.HighRes && last.HighRes, Resolution: time.Duration(max(first.ResolutionNS, last.ResolutionNS)),
		CPUs: first.CPUs, Spin: first.SpinNS, Syscall: first.SyscallNS, Settings: first.Settings, Drift: drift(records),
	}
	// tsc-early is the same counter before its refinement, a second later.
	if last.Clocksource != first.Clocksource && first.Clocksource != "tsc-early" {
		f.Clocksource = first.Clocksource + "->" + last.Clocksource
	} else {
		f.Clocksource = last.Clocksource
	}
	if up := last.UptimeNS - first.UptimeNS; up > 0 && first.CPUs > 0 {
		ticks := float64(last.StealTicks - first.StealTicks)
		f.Steal = ticks / userHZ * 1e9 / float64(up) / float64(first.CPUs)
	}
	return f
}

// clockJitter is how long a clock record may be on its way, through the guest's
// port, QEMU and our own scheduling. Within it two clocks cannot be told apart.
const clockJitter = 20 * time.Millisecond

// drift compares the guest's clock with the host's between the first and the
// last clock record, and returns what is beyond the jitter.
func drift(records []vm.Stamped) float64 {
	var first, last *vm.Stamped
	for i := range records {
		if records[i].Clock == nil {
			continue
		}
		if first == nil {
			first = &records[i]
		}
		last = &records[i]
	}
	if first == nil || last.At <= first.At {
		return 0
	}
	host := last.At - first.At
	apart := time.Duration(last.Clock.MonotonicNS-first.Clock.MonotonicNS) - host
	return float64(apart-max(-clockJitter, min(clockJitter, apart))) / float64(host)
}
