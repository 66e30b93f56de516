package main

import (
	"fmt"

	"bisectd/bisect"
	"bisectd/bisect/judge"
	"bisectd/bisect/runner"
	"bisectd/workloads"
)

// newEngine wires a job's rules to its range and to what observes.
func newEngine(job bisect.Job, commits bisect.Range, tester bisect.Tester, progress bisect.Progress,
) (*bisect.Engine, error) {
	w, err := workloads.Lookup(job.Workload.Name)
	if err != nil {
		return nil, err
	}
	rules := func(metric string, about []string) *judge.Judge {
		return &judge.Judge{Metric: metric, MinEffect: float64(job.Judge.MinEffect), Error: float64(job.Judge.Error),
			Steps: steps(commits), Checks: job.Judge.Checks, Exercises: about}
	}
	e := &bisect.Engine{Job: job, Range: commits, Tester: tester, Progress: progress,
		Judge: rules(job.Judge.Metric, w.Exercises())}
	other, _, metric, err := counterpart(job, w)
	if other != nil {
		e.Counterpart = &bisect.Counterpart{Workload: other.Name(), Metric: metric, Judge: rules(metric, other.Exercises())}
	}
	return e, err
}

// steps is how many tests a walk over the range is expected to make; they
// share the accepted error. A comparison of two kernels has no range.
func steps(r bisect.Range) int {
	if r == nil {
		return 1
	}
	return r.Next(nil).Steps
}

// counterpart looks for the workload's counterpart; there need not be one.
func counterpart(job bisect.Job, w workloads.Workload) (workloads.Workload, workloads.Params, string, error) {
	has, ok := w.(workloads.Counterpart)
	if !ok {
		return nil, workloads.Params{}, "", nil
	}
	name, params, metric := has.Counterpart(job.Workload.Params())
	if name == "" {
		return nil, workloads.Params{}, "", nil
	}
	other, err := workloads.Lookup(name)
	if err != nil {
		return nil, params, "", fmt.Errorf("counterpart of %s: %w", w.Name(), err)
	}
	return other, params, metric, nil
}

// withCounterpart lets a runner run the counterpart of its workload.
func withCounterpart(r *runner.Runner) error {
	var err error
	r.Counterpart, r.CounterpartParams, _, err = counterpart(r.Job, r.Workload)
	return err
}
