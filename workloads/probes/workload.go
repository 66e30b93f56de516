package probes

import (
	"bytes"
	"fmt"
	"time"

	"bisectd/blame"
	"bisectd/workloads"
)

// workload is one mode of timerprobe, run as a workload: a user of timers that
// relies on nothing POSIX leaves open, so that a change of its metrics is a
// change of cost.
type workload struct {
	mode    string
	metrics []workloads.Metric // values unset; primary first
	about   []string           // see Workload.Exercises
}

// Sleepers of 1 ms, the cost of arming without expiring, and a periodic timer
// that is never touched again.
func init() {
	workloads.Register(workload{mode: "sleep", about: []string{"nanosleep"}, metrics: []workloads.Metric{
		{Name: "sleep_late_p50_ns", Unit: "ns", Better: workloads.Lower},
		{Name: "sleep_late_p95_ns", Unit: "ns", Better: workloads.Lower},
		{Name: "sleep_late_max_ns", Unit: "ns", Better: workloads.Lower},
	}})
	workloads.Register(workload{mode: "arm", about: []string{"posix-timer", "timerfd"}, metrics: []workloads.Metric{
		{Name: "arm_disarm_ns", Unit: "ns", Better: workloads.Lower},
		{Name: "timerfd_arm_ns", Unit: "ns", Better: workloads.Lower},
	}})
	workloads.Register(workload{mode: "periodic", about: []string{"posix-timer", "periodic"}, metrics: []workloads.Metric{
		{Name: "ticks_per_s", Unit: "ticks/s", Better: workloads.Higher},
		{Name: "signals_per_s", Unit: "signals/s", Better: workloads.Higher},
		{Name: "overruns_per_s", Unit: "overruns/s", Better: workloads.Lower},
	}})
}

func (w workload) Name() string                     { return "probes/" + w.mode }
func (w workload) Files() ([]workloads.File, error) { return Files() }
func (w workload) Version() (string, error)         { return Version() }

func (w workload) Exercises() []string { return w.about }

func (w workload) Metrics() []string {
	var names []string
	for _, m := range w.metrics {
		names = append(names, m.Name)
	}
	return names
}

// The program's own limit is an hour; below a tenth of a second there are too
// few samples for a 95th percentile.
const (
	shortest = 100 * time.Millisecond
	longest  = time.Hour - time.Second
)

func (w workload) Command(p workloads.Params) (workloads.Command, error) {
	for name := range p.Args {
		return workloads.Command{}, blame.Errorf(blame.User, "%s takes no arguments; %q is unknown", w.Name(), name)
	}
	if p.Duration < shortest || p.Duration > longest {
		return workloads.Command{}, blame.Errorf(blame.User, "%s: duration %s is not within %s to %s",
			w.Name(), p.Duration, shortest, longest)
	}
	return workloads.Command{
		Argv: []string{GuestPath, "--mode=" + w.mode, fmt.Sprintf("--seconds=%g", p.Duration.Seconds())},
		// A loaded host can stretch a guest's run, a broken timer
		// lengthens it by the 5 s after which the program gives up.
		Timeout: 2*p.Duration + 30*time.Second,
		Comm:    comm,
	}, nil
}

func (w workload) Parse(out workloads.Output) (workloads.Sample, error) {
	if out.Exit != 0 {
		return workloads.Sample{}, blame.Errorf(blame.Workload, "%s: exit status %d: %s",
			w.Name(), out.Exit, bytes.TrimSpace(out.Stderr))
	}
	var record struct {
		Mode   string             `json:"mode"`
		Ops    float64            `json:"ops"`
		Values map[string]float64 `json:"values"`
	}
	if err := decode(out.Stdout, &record); err != nil {
		return workloads.Sample{}, err
	}
	if record.Mode != w.mode || record.Ops <= 0 {
		return workloads.Sample{}, blame.Errorf(blame.Workload, "%s: record of mode %q with %g operations",
			w.Name(), record.Mode, record.Ops)
	}
	// The program does not know its own hash: Version is left to the caller.
	s := workloads.Sample{Ops: record.Ops, Wall: out.Wall, User: out.User, System: out.System}
	for _, m := range w.metrics {
		v, ok := record.Values[m.Name]
		if !ok {
			continue // the kernel lacks the interface
		}
		m.Value = v
		s.Metrics = append(s.Metrics, m)
	}
	if len(s.Metrics) == 0 {
		return workloads.Sample{}, blame.Errorf(blame.Workload, "%s: no metric in the record", w.Name())
	}
	return s, nil
}
