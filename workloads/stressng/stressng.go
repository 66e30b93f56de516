// Package stressng runs the timer stressors of stress-ng as workloads. Their
// operations per second are noisy and change with stress-ng's own version: its
// handler re-arms the timer up to 0.19.03 and no longer from 0.19.04 on.
package stressng

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"bisectd/blame"
	"bisectd/workloads"
)

// stressor is one stressor of stress-ng, a workload.
type stressor struct {
	name    string
	program *program
	options map[string]option
	about   []string  // see Workload.Exercises
	extra   []measure // beyond those of every stressor
}

// measure is a metric and where it comes from.
type measure struct {
	workloads.Metric        // value unset
	key              string // of the stressor in stress-ng's YAML; empty for those of the log
}

// common are the metrics of every stressor, primary first.
var common = []measure{
	{workloads.Metric{Name: "bogo_ops_per_s", Unit: "ops/s", Better: workloads.Higher},
		"bogo-ops-per-second-real-time"},
	{workloads.Metric{Name: "bogo_ops_per_cpu_s", Unit: "ops/cpu-s", Better: workloads.Higher},
		"bogo-ops-per-second-usr-sys-time"},
}

// Metrics of the timer stressor that come from its log line about overruns.
// Ticks are operations plus overruns: what the kernel accounted for.
const (
	overruns = "overruns_per_s"
	ticks    = "ticks_per_s"
)

// Only options that all versions from 0.15.06 to 0.22 know.
func init() {
	for _, s := range []*stressor{
		{
			name:    "timer",
			options: map[string]option{"timer-freq": frequency, "timer-rand": toggle},
			// Its main loop sleeps too, but every signal ends the sleep.
			about: []string{"stale-signal", "pending-signal", "posix-timer-realtime", "periodic"},
			extra: []measure{
				{Metric: workloads.Metric{Name: ticks, Unit: "ticks/s", Better: workloads.Higher}},
				{Metric: workloads.Metric{Name: overruns, Unit: "overruns/s", Better: workloads.Lower}},
			},
		},
		{
			name: "timerfd",
			options: map[string]option{"timerfd-freq": frequency, "timerfd-rand": toggle,
				"timerfd-fds": {min: 1, max: 1 << 20}},
			about: []string{"timerfd"},
		},
		{
			name:    "itimer",
			options: map[string]option{"itimer-freq": frequency, "itimer-rand": toggle},
			about:   []string{"itimer"},
		},
		{
			name:    "nanosleep",
			options: map[string]option{"nanosleep-threads": threads},
			about:   []string{"nanosleep"},
			extra: []measure{
				{workloads.Metric{Name: "sleep_overrun_ns", Unit: "ns", Better: workloads.Lower}, "nanosec-sleep-overrun"},
			},
		},
		{
			name:  "clock",
			about: []string{"clock-nanosleep", "posix-timer"},
		},
	} {
		s.program = installed
		workloads.Register(s)
	}
}

// Name returns the registered name.
func (s *stressor) Name() string { return "stress-ng/" + s.name }

// Exercises lists the checks of the semantic probe that are about the same
// interfaces.
func (s *stressor) Exercises() []string { return s.about }

// Files lists stress-ng and its libraries.
func (s *stressor) Files() ([]workloads.File, error) { return s.program.files() }

// Version returns e.g. "stress-ng 0.15.06".
func (s *stressor) Version() (string, error) {
	err := s.program.query()
	return s.program.version, err
}

// Counterpart is, for the timer stressor, a periodic timer of the same frequency
// that is never armed again: what becomes of signals of an earlier setting does
// not touch it. Its ticks are accounted for on every healthy kernel, to the tick,
// at the load of the job. What a signal costs would need more boots than all
// the rest: it scatters by a quarter from boot to boot under TCG.
func (s *stressor) Counterpart(p workloads.Params) (string, workloads.Params, string) {
	if s.name != "timer" {
		return "", workloads.Params{}, ""
	}
	args := map[string]string{}
	if f, ok := p.Args["timer-freq"]; ok {
		args["timer-freq"] = f
	}
	return "probes/periodic", workloads.Params{Args: args, Duration: p.Duration}, ticks
}

// Metrics lists the names that Parse can report.
func (s *stressor) Metrics() []string {
	var names []string
	for _, m := range slices.Concat(common, s.extra) {
		names = append(names, m.Name)
	}
	return names
}

// Command builds the command line. The log, verbose because it alone tells of
// overruns, goes to standard error and the YAML to standard output: written to
// one file they would overwrite each other. /proc/self/fd is there whenever
// /proc is, /dev/stdout is not.
func (s *stressor) Command(p workloads.Params) (workloads.Command, error) {
	if p.Duration < time.Second || p.Duration%time.Second != 0 {
		return workloads.Command{}, blame.Errorf(blame.User,
			"duration %s: stress-ng takes whole seconds, at least 1s", p.Duration)
	}
	args, count, err := arguments(s.options, p.Args)
	if err != nil {
		return workloads.Command{}, fmt.Errorf("%s: %w", s.Name(), err)
	}
	path, err := s.program.find()
	if err != nil {
		return workloads.Command{}, err
	}
	if err := s.program.query(); err != nil {
		return workloads.Command{}, err
	}
	argv := append([]string{path, "--" + s.name, count}, args...)
	argv = append(argv, "--timeout", strconv.Itoa(int(p.Duration/time.Second)), "--metrics", "--no-rand-seed",
		"--temp-path", "/tmp", "--verbose", "--yaml", "/proc/self/fd/1")
	if s.program.stderr {
		argv = append(argv, "--stderr")
	}
	return workloads.Command{
		Argv: argv,
		// Stopping takes stress-ng seconds where timers are slow.
		Timeout: 2*p.Duration + 60*time.Second,
		Comm:    "stress-ng-*", // its workers; the parent that waits is stress-ng
	}, nil
}

// take returns the metric of a report, and whether it is there: some appear
// only in some versions, and those per CPU second only where time was used.
func (m measure) take(r report) (workloads.Metric, bool) {
	v := m.Metric
	switch v.Name {
	case overruns:
		v.Value = r.overruns / r.wall
		return v, r.wall > 0 && r.counted
	case ticks:
		v.Value = (r.ops + r.overruns) / r.wall
		return v, r.wall > 0 && r.counted
	}
	v.Value = r.values[m.key]
	return v, v.Value > 0
}

// Parse reads one execution, of any version since 0.15.06.
func (s *stressor) Parse(out workloads.Output) (workloads.Sample, error) {
	r, err := parse(s.name, slices.Concat(out.Stdout, []byte("\n"), out.Stderr))
	if out.Exit != 0 || r.complaint != "" {
		return workloads.Sample{}, blame.Errorf(blame.Workload, "%s: exit status %d: %s", s.Name(), out.Exit, r.complaint)
	}
	if err != nil {
		return workloads.Sample{}, blame.Errorf(blame.Workload, "%s: %w", s.Name(), err)
	}
	sample := workloads.Sample{Ops: r.ops, Wall: out.Wall, User: out.User, System: out.System, Version: r.version}
	if s.name == "timer" { // an operation is a signal that its handler took
		sample.Signals = r.ops
	}
	for _, m := range slices.Concat(common, s.extra) {
		if v, ok := m.take(r); ok {
			sample.Metrics = append(sample.Metrics, v)
		}
	}
	if _, ok := sample.Metric(common[0].Name); !ok {
		return workloads.Sample{}, blame.Errorf(blame.Workload, "%s: no operation in the whole run", s.Name())
	}
	return sample, nil
}
