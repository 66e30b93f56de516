package bisect

import "context"

// Compare holds two kernels against each other: what kind of difference there
// is, at every vCPU count, without a walk. Range is not used.
func (e *Engine) Compare(ctx context.Context, old, new Commit) (Result, error) {
	e.observed = map[bootID]Observation{}
	e.result = Result{Job: e.Job, Good: old, Bad: new}
	for _, n := range e.Job.Machine.VCPUs {
		e.vcpus = n
		e.Progress.tell(Update{Phase: Confirming, Commit: new, VCPUs: n})
		p, shift, err := e.measure(ctx, old, new, n, TraceBoot, 0)
		if err != nil {
			return e.result, err
		}
		if err := e.usable(p); err != nil {
			return e.result, err
		}
		e.result.Ends, e.result.EndVCPUs = append(e.result.Ends, shift), append(e.result.EndVCPUs, n)
		finding, err := e.classify(ctx, old, new, n, p, shift, 0)
		if err != nil {
			return e.result, err
		}
		e.result.Findings = append(e.result.Findings, finding)
	}
	e.result.Class, e.result.Reasons = overall(e.result.Findings)
	if e.result.Class != BehaviourChange || e.Counterpart == nil {
		return e.result, nil
	}
	e.vcpus = e.Job.Machine.VCPUs[0]
	err := e.rebase(func(sub *Engine) (Result, error) { return sub.Compare(ctx, old, new) })
	for _, r := range e.also {
		e.result.Reasons = append(e.result.Reasons, r.text)
	}
	return e.result, err
}
