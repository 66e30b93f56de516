package runner

import (
	"context"
	"fmt"
	"time"

	"bisectd/bisect"
	"bisectd/bisect/judge"
	"bisectd/blame"
	"bisectd/kbuild"
)

const (
	// maxAttempts bounds the boots made for one observation. Blame other
	// than the kernel's is tried again, then stops the run.
	maxAttempts = 4
	// maxBusy bounds those that a busy host voids on top: with the pauses
	// between them that is more than half an hour.
	maxBusy = 36
	// longestPause is the longest wait between two attempts.
	longestPause = time.Minute
)

// attempts are the boots made for one observation, until one counts.
type attempts struct {
	made, busy int
	failed     *bisect.Observation // without a word, and not repeated yet
	voided     []string
}

// boot boots until one boot counts. A kernel that says why it failed is
// believed at once; one that fell silent, or that restarted, counts only when
// the next boot ends in the same way: that may have been a host that stalled.
func (r *Runner) boot(ctx context.Context, b bisect.Boot, k kbuild.Kernel, load payload, key string,
) (bisect.Observation, error) {
	var a attempts
	for start := time.Now(); ; {
		if err := r.Journal.Begin(ctx, bootEvent, key, beginning(b, k, a.made+a.busy+1)); err != nil {
			return bisect.Observation{}, err
		}
		r.tell(bisect.Update{Phase: bisect.Booting, Commit: b.Commit, VCPUs: b.VCPUs, Profile: b.Profile})
		o, err := r.attempt(ctx, b, k, load)
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		again, failure := a.settle(o, err, judge.Overrides(r.Job.Judge.Checks).Busy(o.Fingerprint))
		if failure != nil {
			return o, fmt.Errorf("boot %s with %d vCPU (%s), attempt %d: %w",
				b.Commit.Short(), b.VCPUs, b.Profile, a.made+a.busy, failure)
		}
		done := bisect.Update{Phase: bisect.Booting, Commit: b.Commit, VCPUs: b.VCPUs, Profile: b.Profile, Done: true}
		if again == "" {
			o.Voided, o.Elapsed = a.voided, time.Since(start)
			done.Took, done.Text = o.Elapsed, outcome(o)
			r.tell(done)
			return o, r.Journal.End(ctx, bootEvent, key, o)
		}
		done.Text = again
		r.tell(done)
		if err != nil {
			if err := r.pause(ctx, wait(blame.Of(err), a.made+a.busy)); err != nil {
				return o, err
			}
		}
	}
}

// settle takes what one attempt gave. It returns why there has to be another
// one, or nothing when it counts; or the error that ends the run.
func (a *attempts) settle(o bisect.Observation, err error, busy bool) (again string, _ error) {
	if busy && err != nil {
		a.busy++
	} else {
		a.made++
	}
	spent := a.made >= maxAttempts || a.busy > maxBusy
	switch {
	case err != nil && (blame.Of(err) == blame.User || spent):
		return "", err
	case err != nil:
		a.voided = append(a.voided, fmt.Sprintf("%s: %s", blame.Of(err), err))
		return "boot thrown away: " + err.Error(), nil
	case !doubtful(o) || a.failed != nil && a.failed.Ending == o.Ending:
		if a.failed != nil && a.failed.Ending != o.Ending {
			a.voided = append(a.voided, outcome(*a.failed)+" (not repeated)")
		}
		return "", nil
	case spent:
		return "", blame.Errorf(blame.Infrastructure, "%s, which no other attempt has repeated", outcome(o))
	default:
		if a.failed != nil {
			a.voided = append(a.voided, outcome(*a.failed)+" (not repeated)")
		}
		a.failed = &o
		return outcome(o) + ": once more to be sure", nil
	}
}

// doubtful tells whether a failure may be the host's.
func doubtful(o bisect.Observation) bool { return o.Ending != bisect.Completed && !o.Spoke }

func beginning(b bisect.Boot, k kbuild.Kernel, attempt int) map[string]any {
	return map[string]any{"commit": b.Commit.ID, "vcpus": b.VCPUs, "profile": b.Profile, "ordinal": b.Ordinal,
		"kernel": k.Key, "attempt": attempt}
}

func outcome(o bisect.Observation) string {
	if o.Ending != bisect.Completed {
		return fmt.Sprintf("%s: %s", o.Ending, o.Detail)
	}
	return "completed"
}

// wait is how long to wait after a failed attempt. What the host has to do
// beside us may take minutes; what broke may be whole again at once.
func wait(of blame.Blame, attempt int) time.Duration {
	if of != blame.Environment {
		return time.Duration(attempt) * time.Second
	}
	pause := 10 * time.Second
	for range attempt - 1 {
		pause = min(4*pause, longestPause)
	}
	return pause
}

func (r *Runner) pause(ctx context.Context, d time.Duration) error {
	if r.Pause != nil {
		return r.Pause(ctx, d)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
