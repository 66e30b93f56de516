// Package runner makes observations: it has the kernel built, boots it with
// the workload, and turns what the guest said into a bisect.Observation. It
// writes every build and boot to the journal before it starts and after it
// ends, and answers from the journal what was done before.
package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"bisectd/bisect"
	"bisectd/bisect/judge"
	"bisectd/blame"
	"bisectd/kbuild"
	"bisectd/vm"
	"bisectd/workloads"
)

const (
	// firstBoot is the deadline to the agent while no boot was measured yet;
	// afterwards it is bootFactor times the slowest one, but leastBoot.
	firstBoot = 90 * time.Second
	leastBoot = 20 * time.Second
	// eachVCPU is what every vCPU beyond the first adds: the kernel brings
	// them up one after the other, 64 of them in two minutes on two cores.
	eachVCPU   = 3 * time.Second
	bootFactor = 10
	// slack is added to the guest's own time-outs.
	slack = 20 * time.Second
)

// paddedFragment is the configuration of bisect.Padded.
const paddedFragment = "padded"

// Kinds of journal events.
const (
	buildEvent = "build"
	bootEvent  = "boot"
)

// Journal is what the runner needs of package journal.
type Journal interface {
	Begin(ctx context.Context, kind, key string, data any) error
	End(ctx context.Context, kind, key string, result any) error
	Finished(ctx context.Context, kind, key string, result any) (bool, error)
	// Artefact stores a file and returns its sha256.
	Artefact(ctx context.Context, path string) (string, error)
}

// Runner implements bisect.Tester.
type Runner struct {
	Job      bisect.Job
	Workload workloads.Workload
	Builder  kbuild.Builder
	Launcher vm.Launcher
	Accel    vm.Accel // KVM or TCG, one for the whole run
	Emulator string   // QEMU's version: boots under another one are other boots
	Journal  Journal
	Dir      string // scratch space for archives and boots
	Progress bisect.Progress
	// Counterpart is what bisect.CounterpartBoot runs; nil where the workload
	// has none.
	Counterpart       workloads.Workload
	CounterpartParams workloads.Params
	// Pause waits before another attempt; nil sleeps.
	Pause func(context.Context, time.Duration) error

	payloads map[cargo]payload
	slowest  time.Duration // startup so far
	tally    tally
}

var _ bisect.Tester = (*Runner)(nil)

// tally counts each build and boot of the run once, whether it was made now
// or is answered from the journal.
type tally struct {
	seen   map[string]bool
	totals Totals
}

// Totals is what the observations so far have cost.
type Totals struct {
	Builds, Reused, Boots, Voided int
	Elapsed                       time.Duration // of the builds and boots
	Compiler, Workload            string
}

// Totals returns the cost of all observations asked for so far.
func (r *Runner) Totals() Totals { return r.tally.totals }

func (t *tally) once(key string, add func(*Totals)) {
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	if !t.seen[key] {
		t.seen[key] = true
		add(&t.totals)
	}
}

// buildRecord is the journal's entry for a build.
type buildRecord struct {
	Kernel  kbuild.Kernel `json:"kernel"`
	Reused  bool          `json:"reused"`
	Failure string        `json:"failure,omitempty"` // first error line: the commit does not build
	Took    time.Duration `json:"took"`
}

// Observe builds and boots b, or returns what an earlier process observed.
func (r *Runner) Observe(ctx context.Context, b bisect.Boot) (bisect.Observation, error) {
	built, err := r.build(ctx, b.Commit, b.Variant)
	if err != nil {
		return bisect.Observation{}, err
	}
	if built.Failure != "" {
		return noBuild(b, built.Failure), nil
	}
	load, err := r.payload(b, built.Kernel)
	if err != nil {
		return bisect.Observation{}, err
	}
	key := r.bootKey(built.Kernel, load, b)
	var o bisect.Observation
	done, err := r.Journal.Finished(ctx, bootEvent, key, &o)
	if err != nil {
		return o, err
	}
	if !done {
		if o, err = r.boot(ctx, b, built.Kernel, load, key); err != nil {
			return o, err
		}
	}
	r.slowest = max(r.slowest, o.Startup)
	r.tally.once(key, func(t *Totals) {
		t.Boots += 1 + len(o.Voided)
		t.Voided += len(o.Voided)
		t.Elapsed += o.Elapsed
		if b.Profile != bisect.CounterpartBoot {
			t.Workload = load.version
		}
	})
	o.Commit = b.Commit.ID
	return o, nil
}

// Kernel returns the kernel of a commit. One that does not build is
// blame.User: the caller chose it.
func (r *Runner) Kernel(ctx context.Context, c bisect.Commit) (kbuild.Kernel, error) {
	rec, err := r.build(ctx, c, bisect.Plain)
	if err == nil && rec.Failure != "" {
		err = blame.Errorf(blame.User, "%s does not build: %s; choose another revision", c.Short(), rec.Failure)
	}
	return rec.Kernel, err
}

// build returns the kernel of a commit or the reason why it has none. The
// journal has it under all that the kernel depends on, so that a compiler
// replaced while the run was interrupted is not mixed with its successor.
func (r *Runner) build(ctx context.Context, c bisect.Commit, v bisect.Variant) (buildRecord, error) {
	var rec buildRecord
	spec := kbuild.Spec{Commit: c.ID, Tree: c.Tree, Fragments: r.Job.Kernel.Config, Compiler: r.Job.Kernel.Compiler}
	if v == bisect.Padded {
		spec.Fragments = append(slices.Clone(spec.Fragments), paddedFragment)
	}
	key, err := r.Builder.Key(ctx, spec)
	if err != nil {
		return rec, fmt.Errorf("build %s: %w", c.Short(), err)
	}
	done, err := r.Journal.Finished(ctx, buildEvent, key, &rec)
	if err != nil {
		return rec, err
	}
	switch {
	case done && rec.Failure != "":
	case done && exists(rec.Kernel.Image):
		// The store checks the image and holds it for this process.
		if rec.Kernel, err = r.Builder.Build(ctx, spec); err != nil {
			return rec, fmt.Errorf("build %s: %w", c.Short(), err)
		}
	default:
		if rec, err = r.compile(ctx, c, spec, key); err != nil {
			return rec, err
		}
	}
	r.tally.once("build "+key, func(t *Totals) {
		if rec.Reused {
			t.Reused++
		} else {
			t.Builds++
			t.Elapsed += rec.Took
		}
		if rec.Kernel.Compiler != "" {
			t.Compiler = rec.Kernel.Compiler
		}
	})
	return rec, nil
}

func (r *Runner) compile(ctx context.Context, c bisect.Commit, spec kbuild.Spec, key string) (buildRecord, error) {
	if err := r.Journal.Begin(ctx, buildEvent, key, spec); err != nil {
		return buildRecord{}, err
	}
	r.tell(bisect.Update{Phase: bisect.Building, Commit: c})
	start := time.Now()
	kernel, err := r.Builder.Build(ctx, spec)
	for n := 1; err != nil && ctx.Err() == nil && blame.Of(err) == blame.Infrastructure && n < maxAttempts; n++ {
		r.tell(bisect.Update{Phase: bisect.Building, Commit: c, Done: true, Text: "once more: " + err.Error()})
		if err := r.pause(ctx, wait(blame.Environment, n)); err != nil { // memory or disk may be free again in minutes
			return buildRecord{}, err
		}
		kernel, err = r.Builder.Build(ctx, spec)
	}
	rec := buildRecord{Kernel: kernel, Reused: kernel.Reused, Took: time.Since(start)}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return rec, ctx.Err()
	case blame.Of(err) == blame.Kernel:
		rec.Failure = err.Error()
	default:
		return rec, fmt.Errorf("build %s: %w", c.Short(), err)
	}
	r.tell(bisect.Update{Phase: bisect.Building, Commit: c, Done: true, Took: rec.Took, Text: rec.outcome()})
	return rec, r.Journal.End(ctx, buildEvent, key, rec)
}

func (rec buildRecord) outcome() string {
	switch {
	case rec.Failure != "":
		return "does not build: " + rec.Failure
	case rec.Reused:
		return "from the store"
	default:
		return fmt.Sprintf("%d objects compiled", rec.Kernel.Objects)
	}
}

// bootKey names a boot by what can change its result. Commits whose kernels
// hold the same code share it, so that none of them is booted twice.
func (r *Runner) bootKey(k kbuild.Kernel, load payload, b bisect.Boot) string {
	id := struct {
		Signature, Payload, Accel, Emulator, Memory string
		VCPUs, Ordinal                              int
		Profile                                     bisect.Profile
	}{k.Signature, load.digest, string(r.Accel), r.Emulator, r.Job.Machine.Memory.String(), b.VCPUs, b.Ordinal, b.Profile}
	text, err := json.Marshal(id)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// attempt makes one boot. An error means that nothing was learned about the
// kernel.
func (r *Runner) attempt(ctx context.Context, b bisect.Boot, k kbuild.Kernel, load payload,
) (bisect.Observation, error) {
	dir, err := os.MkdirTemp(r.Dir, "boot-")
	if err != nil {
		return bisect.Observation{}, blame.Errorf(blame.Infrastructure, "boot directory: %w", err)
	}
	defer os.RemoveAll(dir)
	out, err := r.Launcher.Run(ctx, vm.Config{
		Image: k.Image, Initrd: load.archive, VCPUs: b.VCPUs, MemoryMiB: int(r.Job.Machine.Memory), Accel: r.Accel,
		Dir: dir, BootDeadline: r.bootDeadline(b.VCPUs), RunDeadline: load.timeout + slack,
	})
	if err != nil {
		return bisect.Observation{}, err
	}
	o, err := load.read(out)
	if err != nil {
		return o, err
	}
	o.Commit, o.VCPUs, o.Profile, o.Ordinal = b.Commit.ID, b.VCPUs, b.Profile, b.Ordinal
	o.Variant, o.Only = b.Variant, b.Only
	o.Kernel = bisect.Kernel{Key: k.Key, Signature: k.Signature, Release: k.Release, Compiler: k.Compiler}
	o.Fingerprint.Accel = string(r.Accel)
	if o.Ending == bisect.Completed {
		if why := judge.Overrides(r.Job.Judge.Checks).Gate(o.Fingerprint, b.VCPUs); why != "" {
			return o, blame.Errorf(blame.Environment, "%s", why)
		}
	}
	if exists(out.Console) {
		if o.Console, err = r.Journal.Artefact(ctx, out.Console); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (r *Runner) bootDeadline(vcpus int) time.Duration {
	more := time.Duration(vcpus-1) * eachVCPU
	if r.slowest == 0 {
		return firstBoot + more
	}
	return max(leastBoot, bootFactor*r.slowest) + more
}

func (r *Runner) tell(u bisect.Update) {
	if r.Progress != nil {
		r.Progress(u)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}
