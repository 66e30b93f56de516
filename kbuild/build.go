package kbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bisectd/blame"
	"bisectd/kbuild/internal/proc"
)

// keptLogs is how many logs of failed builds are kept for a repository.
const keptLogs = 50

// variables are the make variables that a kernel is built with, less those
// that say where and how fast. The build's identity (init/Makefile,
// scripts/mkcompile_h) is the same in all kernels, so that equal code gives
// equal images and no step rebuilds the users of a time stamp. LOCALVERSION,
// set and empty, keeps the "+" of an untagged commit out of the release
// (scripts/setlocalversion).
func variables(cc string) []string {
	return []string{
		"ARCH=x86",
		"CC=" + cc,
		"LOCALVERSION=",
		"KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
		"KBUILD_BUILD_VERSION=1",
		"KBUILD_BUILD_USER=bisectd",
		"KBUILD_BUILD_HOST=bisectd",
	}
}

// run builds the kernel in the work tree. The caller holds the lock.
func (b *build) run(ctx context.Context) (Kernel, error) {
	start := time.Now()
	if err := b.objects.begin(start); err != nil {
		return Kernel{}, err
	}
	if err := b.tree.dropObjects(); err != nil {
		return Kernel{}, err
	}
	if err := b.tree.work.checkout(ctx, b.held, b.spec.Commit); err != nil {
		return Kernel{}, err
	}
	checkedOut := time.Since(start)
	k, failure := b.attempt(ctx, checkedOut)
	k.Elapsed = time.Since(start)
	if failure != nil && blame.Of(failure) != blame.Kernel {
		return Kernel{}, failure // the mark stays: make may not have ended well
	}
	if err := b.objects.end(); err != nil {
		return Kernel{}, err
	}
	if failure != nil {
		return b.failed(k, failure)
	}
	return b.tree.store.save(k, map[string]string{
		imageFile:     filepath.Join(b.objects.output(), "arch/x86/boot/bzImage"),
		systemMapFile: filepath.Join(b.objects.output(), "System.map"),
		configFile:    filepath.Join(b.objects.output(), ".config"),
		logFile:       b.objects.log(),
	})
}

// attempt builds, and builds again from scratch when the failure may come from
// objects of another commit: dependencies that the Makefiles do not know.
func (b *build) attempt(ctx context.Context, checkedOut time.Duration) (Kernel, error) {
	log, err := os.Create(b.objects.log())
	if err != nil {
		return Kernel{}, fmt.Errorf("kbuild: %w", err)
	}
	defer log.Close()
	fmt.Fprintf(log, "bisectd: commit %s\nbisectd: tree %s\nbisectd: compiler %s\nbisectd: make %s\n",
		b.spec.Commit, b.spec.Tree, b.tools.version, strings.Join(variables(b.cc), " "))
	fmt.Fprintf(log, "bisectd: work tree ready after %.1f s\n", checkedOut.Seconds())
	used := !b.objects.fresh()
	k, out, err := b.compile(ctx, log)
	if err == nil || out == nil || !used || blame.Of(err) != blame.Kernel {
		return k, err
	}
	stale, doubt := b.stale(ctx, out)
	if doubt != nil {
		return Kernel{}, doubt
	}
	if !stale {
		return k, err
	}
	fmt.Fprintf(log, "\nbisectd: no file that changed since the last good build is named in the error;"+
		" trying once more from scratch\n\n")
	if err := b.objects.wipe(); err != nil {
		return Kernel{}, fmt.Errorf("kbuild: %w", err)
	}
	k, _, err = b.compile(ctx, log)
	return k, err
}

// stale reports whether a failure may come from stale objects: nothing that
// changed since the last good build in this directory is named near the error.
func (b *build) stale(ctx context.Context, out *output) (bool, error) {
	last := b.objects.state().Tree
	if last == "" {
		return true, nil
	}
	changed, err := b.tree.work.changed(ctx, last, b.spec.Tree)
	if err != nil {
		return false, err
	}
	return !out.failure.names(changed), nil
}

// compile configures and makes the kernel. The output is that of make, nil
// when it did not come to that.
func (b *build) compile(ctx context.Context, log *os.File) (Kernel, *output, error) {
	k := Kernel{Key: b.key, Tree: b.spec.Tree, Compiler: b.tools.version}
	start := time.Now()
	scratch := b.objects.fresh()
	config, err := b.config(ctx, newOutput(log, b.tree.work.dir, b.objects.output(), nil))
	if err != nil {
		return k, nil, err
	}
	if k.Wanted, err = b.checkConfig(ctx, config); err != nil {
		return k, nil, err
	}
	if err := b.objects.installConfig(config); err != nil {
		return k, nil, fmt.Errorf("kbuild: %w", err)
	}
	fmt.Fprintf(log, "bisectd: configured after %.1f s\n", time.Since(start).Seconds())
	if err := os.RemoveAll(b.objects.stats()); err != nil {
		return k, nil, fmt.Errorf("kbuild: %w", err)
	}
	out := newOutput(log, b.tree.work.dir, b.objects.output(), b.progress(scratch))
	if err := b.make(ctx, out, b.cc, "bzImage"); err != nil {
		return k, out, err
	}
	fmt.Fprintf(log, "bisectd: made after %.1f s\n", time.Since(start).Seconds())
	k.Objects = out.objects
	if err := b.describe(&k); err != nil {
		return k, nil, err
	}
	now := state{Tree: b.spec.Tree, Whole: b.objects.state().Whole}
	if scratch {
		now.Whole = k.Objects
	}
	return k, nil, b.objects.setState(now)
}

// describe adds to the kernel what is read from its files.
func (b *build) describe(k *Kernel) error {
	release, err := os.ReadFile(filepath.Join(b.objects.output(), "include/config/kernel.release"))
	if err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	k.Release = string(bytes.TrimSpace(release))
	if k.Signature, err = signature(b.objects.output()); err != nil {
		return err
	}
	if k.CacheHits, err = ccacheHits(b.objects.stats()); err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	return nil
}

// progress returns what is called for each object, nil when nobody listens.
func (b *build) progress(scratch bool) func(int) {
	if b.tree.options.Progress == nil {
		return nil
	}
	expected := 0
	if scratch {
		expected = b.objects.state().Whole
	}
	return func(done int) { b.tree.options.Progress(done, expected) }
}

// make runs make in the work tree with the compiler cc. Its failure is blamed
// on whom the output points at.
func (b *build) make(ctx context.Context, out *output, cc string, args ...string) error {
	// Output by target: the lines of one compiler stay together.
	all := append([]string{fmt.Sprintf("-j%d", b.tree.options.Jobs), "--output-sync=target",
		"O=" + b.objects.output()}, variables(cc)...)
	env := proc.Environment()
	if b.tools.ccache {
		env = proc.Environment(ccacheEnvironment(filepath.Join(b.tree.options.CacheDir, "ccache"),
			b.objects.stats(), digest(b.tools.id())[:16], b.tree.options.CCacheLimit)...)
	}
	command := proc.Command{Dir: b.tree.work.dir, Env: env, Held: b.held, Output: out}
	err := command.Run(ctx, "make", append(all, args...)...)
	out.close()
	if out.err != nil {
		return fmt.Errorf("kbuild: build log: %w", out.err)
	}
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Exited() { // not started, cancelled or killed
		return fmt.Errorf("kbuild: make: %w", err)
	}
	return blame.Errorf(out.failure.blame(), "build: %s", out.failure.line())
}

// failed keeps the log of a build that failed.
func (b *build) failed(k Kernel, failure error) (Kernel, error) {
	dir := filepath.Join(b.tree.slot, "failed")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Kernel{}, fmt.Errorf("kbuild: %w", err)
	}
	k.Log = filepath.Join(dir, b.key+".log")
	if err := os.Rename(b.objects.log(), k.Log); err != nil {
		return Kernel{}, fmt.Errorf("kbuild: %w", err)
	}
	return k, errors.Join(failure, pruneLogs(dir))
}

// pruneLogs removes all but the newest logs.
func pruneLogs(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	age := map[string]time.Time{}
	for _, path := range logs {
		if info, err := os.Stat(path); err == nil {
			age[path] = info.ModTime()
		}
	}
	slices.SortFunc(logs, func(a, b string) int { return age[b].Compare(age[a]) })
	for _, path := range logs[min(keptLogs, len(logs)):] {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// exitStatus returns the status a command exited with, -1 when err is not
// about that.
func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
