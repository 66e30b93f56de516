package probes

import (
	"bytes"
	"fmt"
	"strconv"
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
	timer   bool               // has a timer of the argument timer-freq
}

// Sleepers of 1 ms, the cost of arming without expiring, a periodic timer that
// is never touched again, and messages that go back and forth. The periodic
// timer is the counterpart of stress-ng/timer at the same timer-freq: the same
// clock, handler and main loop, but the handler does not arm the timer again,
// so that no signal is ever pending when it is armed.
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
	periodic := []string{"posix-timer", "periodic", "overrun"}
	workloads.Register(workload{mode: "periodic", timer: true, about: periodic, metrics: []workloads.Metric{
		{Name: "ticks_per_s", Unit: "ticks/s", Better: workloads.Higher},
		{Name: "ticks_per_cpu_s", Unit: "ticks/cpu-s", Better: workloads.Higher},
		{Name: "signals_per_cpu_s", Unit: "signals/cpu-s", Better: workloads.Higher},
		{Name: "signals_per_s", Unit: "signals/s", Better: workloads.Higher},
		{Name: "overruns_per_s", Unit: "overruns/s", Better: workloads.Lower},
	}})
	workloads.Register(workload{mode: "mq", about: []string{"mq-"}, metrics: []workloads.Metric{
		{Name: "mq_rtt_p50_ns", Unit: "ns", Better: workloads.Lower},
		{Name: "mq_rtt_p99_ns", Unit: "ns", Better: workloads.Lower},
		{Name: "mq_trips_per_s", Unit: "trips/s", Better: workloads.Higher},
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

// The one argument, with the name and the range that stress-ng/timer gives it.
const (
	frequencyArg = "timer-freq" // Hz
	fastest      = 100_000_000
)

// frequency reads the argument of a workload that has a timer; 0 means the
// program's own, 1 kHz.
func (w workload) frequency(args map[string]string) (int, error) {
	hz := 0
	for name, text := range args {
		if !w.timer {
			return 0, blame.Errorf(blame.User, "%s takes no arguments; %q is unknown", w.Name(), name)
		}
		if name != frequencyArg {
			return 0, blame.Errorf(blame.User, "%s: unknown argument %q; known: %s", w.Name(), name, frequencyArg)
		}
		var err error
		if hz, err = strconv.Atoi(text); err != nil || hz < 1 || hz > fastest {
			return 0, blame.Errorf(blame.User, "%s: %s %q is not a number from 1 to %d", w.Name(), name, text, fastest)
		}
	}
	return hz, nil
}

func (w workload) Command(p workloads.Params) (workloads.Command, error) {
	hz, err := w.frequency(p.Args)
	if err != nil {
		return workloads.Command{}, err
	}
	if p.Duration < shortest || p.Duration > longest {
		return workloads.Command{}, blame.Errorf(blame.User, "%s: duration %s is not within %s to %s",
			w.Name(), p.Duration, shortest, longest)
	}
	argv := []string{GuestPath, "--mode=" + w.mode, fmt.Sprintf("--seconds=%g", p.Duration.Seconds())}
	if hz > 0 {
		argv = append(argv, fmt.Sprintf("--frequency=%d", hz))
	}
	return workloads.Command{
		Argv: argv,
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
