package bisect

import (
	"context"
	"fmt"
)

// Counterpart is a workload about the same interfaces as the job's that relies
// on nothing which the standard leaves open: a number of it keeps its meaning
// where that of the job's has changed it.
type Counterpart struct {
	Workload string
	Metric   string
	Judge    Judge // of that metric
}

// Rebased says how the ends of the range compare in the counterpart's metric.
type Rebased struct {
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
	VCPUs    int    `json:"vcpus"`
	Ends     Shift  `json:"ends"`
}

// counterpartTester has the counterpart run where the metric is asked for. What
// the engine has observed it does not ask for again.
type counterpartTester struct{ *Engine }

func (t counterpartTester) Observe(ctx context.Context, b Boot) (Observation, error) {
	if b.Profile == MetricBoot {
		b.Profile = CounterpartBoot
	}
	o, err := t.observe(ctx, b)
	if o.Profile == CounterpartBoot {
		o.Profile = MetricBoot
	}
	return o, err
}

// rebase asks, after a change of behaviour, whether users who rely on nothing
// unspecified are worse off at the bad end: a regression may hide behind the
// number that changed its meaning. answer runs the same job on the
// counterpart's metric.
func (e *Engine) rebase(answer func(*Engine) (Result, error)) error {
	c := e.Counterpart
	job := e.Job
	job.Judge.Metric, job.Judge.Signal = c.Metric, OnlyMetric
	job.Machine.VCPUs = []int{e.vcpus}
	e.Progress.tell(Update{Phase: Calibrating, VCPUs: e.vcpus,
		Text: fmt.Sprintf("the metric changed its meaning: measuring the ends again with %s", c.Workload)})
	sub := Engine{Job: job, Range: e.Range, Tester: counterpartTester{e}, Judge: c.Judge, Progress: e.Progress}
	r, err := answer(&sub)
	if err != nil {
		return err
	}
	ends := r.Ends[0]
	e.result.Rebased = &Rebased{Workload: c.Workload, Metric: c.Metric, VCPUs: e.vcpus, Ends: ends}
	e.result.Tests = append(e.result.Tests, r.Tests...)
	e.result.Changes = append(e.result.Changes, r.Changes...)
	switch said := fmt.Sprintf("%s of %s, which does without, %s between the ends of the range (%+.1f %%, "+
		"95 %% interval %+.1f to %+.1f)", c.Metric, c.Workload, moved(ends.Decision), 100*ends.Effect, 100*ends.Low,
		100*ends.High); {
	case len(r.Changes) > 0, ends.Decision != Moved:
		e.also = append(e.also, remark{text: said})
	default:
		e.also = append(e.also, remark{text: said + ", and no commit could be named for that"})
	}
	return nil
}

func moved(c Change) string {
	return map[Change]string{Moved: "moves", Same: "does not move", Unclear: "may move or not"}[c]
}
