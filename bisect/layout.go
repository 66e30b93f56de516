package bisect

import (
	"context"
	"fmt"
	"math"
)

// Variant is how a kernel is built where that is not as the job says.
type Variant string

// The variants. Padded aligns every function to 64 bytes
// (CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B): code that only moved, because the
// linker put something else in front of it, then stays where it was in the
// cache.
const (
	Plain  Variant = ""
	Padded Variant = "padded"
)

// layoutDoubt is the shift of a metric up to which it may come from where the
// linker put the code: alignment alone has moved network benchmarks by 17 %
// and more (kernel commit 09c60546f04f), and only a small one is worth two
// builds from scratch.
const layoutDoubt = 0.15

// mayBeLayout tells whether a finding rests on nothing but a small shift.
func mayBeLayout(f Finding) bool {
	return (f.Class == Regression || f.Class == Improvement) && f.Shift.Decision == Moved &&
		math.Abs(f.Shift.Effect) < layoutDoubt && len(f.Broken)+len(f.Mended) == 0
}

// paddedTester has every kernel built with its functions aligned.
type paddedTester struct{ *Engine }

func (t paddedTester) Observe(ctx context.Context, b Boot) (Observation, error) {
	b.Variant = Padded
	return t.observe(ctx, b)
}

// padded measures the pair with aligned functions. Nil where the kernels
// cannot be built or booted so.
func (e *Engine) padded(ctx context.Context, old, new Commit, vcpus int) (*Shift, error) {
	e.Progress.tell(Update{Phase: Confirming, Commit: new, VCPUs: vcpus,
		Text: fmt.Sprintf("building %s and its parent again, with every function aligned", new.Short())})
	sub := Engine{Job: e.Job, Tester: paddedTester{e}, Judge: e.Judge, Progress: e.Progress,
		observed: map[bootID]Observation{}}
	p, shift, err := sub.measure(ctx, old, new, vcpus, ProbeBoot, freshOrdinal)
	if err != nil || p.failures() > 0 {
		return nil, err
	}
	return &shift, nil
}
