package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/journal"
	"bisectd/bisect/judge"
	"bisectd/bisect/runner"
	"bisectd/blame"
	"bisectd/configs"
	"bisectd/kbuild"
	"bisectd/vm"
	"bisectd/vm/guest/proto"
	"bisectd/vm/qemu"
	"bisectd/workloads"
)

// Journal kinds written here: the result of the whole run, and the
// accelerator chosen for it, so that a resumed run never mixes two.
const (
	resultEvent = "result"
	accelEvent  = "accelerator"
)

func say(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// loadJob reads a job file. That its checks are known to the judge is not for
// package bisect to say.
func loadJob(path string) (bisect.Job, error) {
	job, err := bisect.LoadJob(path)
	if err != nil {
		return job, err
	}
	if err := judge.Overrides(job.Judge.Checks).Check(); err != nil {
		return job, blame.Errorf(blame.User, "%s:%w", path, err)
	}
	if err := judge.CheckSignal(job.Judge.Signal); err != nil {
		return job, blame.Errorf(blame.User, "%s: %w", path, err)
	}
	return job, nil
}

// session is one run of one job with everything it uses.
type session struct {
	job     bisect.Job
	commits *history.Range
	kernels map[string]kbuild.Kernel // that need no build, by commit
	store   *journal.Store
	run     *journal.Run
	id      string
	meter   *meter
	paths   Paths
}

// open checks the job against the world and finds or begins its run. With
// again set, a finished run is not shown but made anew.
func open(ctx context.Context, paths Paths, job bisect.Job, again bool, m *meter) (*session, error) {
	if err := paths.prepare(); err != nil {
		return nil, err
	}
	if err := checkReports(job.Report.Dir); err != nil {
		return nil, err
	}
	commits, err := history.Open(ctx, job.Repo, job.Good, job.Bad)
	if err != nil {
		return nil, err
	}
	if err := checkTools(ctx, job); err != nil {
		return nil, err
	}
	if err := kbuild.Check(ctx); err != nil {
		return nil, err
	}
	m.expect(commits.Len())
	s := &session{job: job, commits: commits, meter: m, paths: paths}
	return s, s.begin(ctx, again)
}

func (s *session) close() {
	s.run.Close()
	s.store.Close()
}

// begin opens the journal and in it the newest run of this job, or the next
// one after a finished run when it is to be made again.
func (s *session) begin(ctx context.Context, again bool) (err error) {
	base, err := identity(s.job, s.commits)
	if err != nil {
		return err
	}
	if s.store, err = journal.Open(s.paths.State); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.store.Close()
		}
	}()
	for n := 1; ; n++ {
		id := fmt.Sprintf("%s-%d", base, n)
		run, err := s.store.Run(ctx, id)
		if err != nil {
			return err
		}
		finished, err := run.Finished(ctx, resultEvent, "", nil)
		if err != nil {
			run.Close()
			return err
		}
		if !finished || !again && !s.known(ctx, fmt.Sprintf("%s-%d", base, n+1)) {
			s.run, s.id = run, id
			return s.meter.keep(filepath.Join(run.Dir(), "log.json"))
		}
		run.Close()
	}
}

func (s *session) known(ctx context.Context, id string) bool {
	runs, err := s.store.Runs(ctx)
	if err != nil {
		return false
	}
	for _, r := range runs {
		if r.ID == id {
			return true
		}
	}
	return false
}

// identity names a run by its job's name and everything that its result
// depends on, with revisions resolved.
func identity(job bisect.Job, commits bisect.Range) (string, error) {
	text, err := json.Marshal(pinned(job, commits))
	if err != nil {
		return "", fmt.Errorf("job: %w", err)
	}
	sum := sha256.Sum256(text)
	return job.Name + "-" + hex.EncodeToString(sum[:4]), nil
}

// pinned returns the job with revisions resolved and without its reports.
func pinned(job bisect.Job, commits bisect.Range) bisect.Job {
	job.Report = bisect.Output{}
	job.Good, job.Bad = nil, commits.Bad().ID
	for _, c := range commits.Good() {
		job.Good = append(job.Good, c.ID)
	}
	return job
}

// execute answers the job, from the journal where it is finished already.
func (s *session) execute(ctx context.Context, answer func(*bisect.Engine, context.Context) (bisect.Result, error),
) (bisect.Result, error) {
	var result bisect.Result
	done, err := s.run.Finished(ctx, resultEvent, "", &result)
	if err != nil || done {
		result.Job.Report = s.job.Report
		return result, err
	}
	err = s.with(ctx, func(engine *bisect.Engine, tester *runner.Runner, why string) error {
		if err := s.run.Begin(ctx, resultEvent, "", pinned(s.job, s.commits)); err != nil {
			return err
		}
		if result, err = answer(engine, ctx); err != nil {
			return err
		}
		totals := tester.Totals()
		result.Run, result.Accel, result.AccelWhy = s.id, string(tester.Accel), why
		result.Workload, result.Compiler = totals.Workload, totals.Compiler
		result.Builds, result.Reused, result.Boots = totals.Builds, totals.Reused, totals.Boots
		result.Voided, result.Elapsed = totals.Voided, totals.Elapsed
		return s.run.End(ctx, resultEvent, "", result)
	})
	return result, err
}

// with lends do an engine, the tester behind it, and why it has its
// accelerator.
func (s *session) with(ctx context.Context, do func(*bisect.Engine, *runner.Runner, string) error) error {
	scratch := filepath.Join(s.run.Dir(), "scratch")
	if err := errors.Join(os.RemoveAll(scratch), os.MkdirAll(scratch, 0o700)); err != nil { // what a killed one left
		return blame.Errorf(blame.Infrastructure, "scratch directory: %w", err)
	}
	defer os.RemoveAll(scratch)
	tester, why, err := s.tester(ctx, scratch)
	if err != nil {
		return err
	}
	engine, err := newEngine(s.job, s.commits, tester, s.meter.update)
	if err != nil {
		return err
	}
	return do(engine, tester, why)
}

// builder returns what has the kernels at hand and builds the others.
func (s *session) builder(ctx context.Context) (kbuild.Builder, error) {
	if s.job.Repo == "" {
		return readyKernels{s.kernels, nil}, nil
	}
	fragments, err := fs.Sub(configs.FS, "fragments")
	if err != nil {
		return nil, err
	}
	builder, err := kbuild.New(ctx, kbuild.Options{Repo: s.job.Repo, CacheDir: s.paths.Cache, Fragments: fragments,
		Progress: s.meter.compiled})
	return readyKernels{s.kernels, builder}, err
}

// tester wires builder, launcher and workload, and settles the accelerator by
// booting the good kernel.
func (s *session) tester(ctx context.Context, scratch string) (*runner.Runner, string, error) {
	builder, err := s.builder(ctx)
	if err != nil {
		return nil, "", err
	}
	workload, err := workloads.Lookup(s.job.Workload.Name)
	if err != nil {
		return nil, "", blame.Errorf(blame.User, "%w", err)
	}
	launcher, err := qemu.Find(ctx)
	if err != nil {
		return nil, "", err
	}
	r := &runner.Runner{Job: s.job, Workload: workload, Builder: builder, Launcher: launcher,
		Emulator: launcher.Machine(), Journal: s.run, Dir: scratch, Progress: s.meter.update}
	if err := withCounterpart(r); err != nil {
		return nil, "", err
	}
	var chosen accelerator
	done, err := s.run.Finished(ctx, accelEvent, "", &chosen)
	if err != nil {
		return nil, "", err
	}
	if !done {
		if chosen, err = s.settle(ctx, r, launcher); err != nil {
			return nil, "", err
		}
	}
	r.Accel = chosen.Accel
	s.meter.line("%s", chosen.Why)
	return r, chosen.Why, nil
}

// accelerator is the journal's record of the choice.
type accelerator struct {
	Accel vm.Accel `json:"accel"`
	Why   string   `json:"why"`
}

func (s *session) settle(ctx context.Context, r *runner.Runner, l *qemu.Launcher) (accelerator, error) {
	kernel, err := r.Kernel(ctx, s.commits.Good()[0])
	if err != nil {
		return accelerator{}, err
	}
	drivers, err := runner.Drivers(kernel)
	if err != nil {
		return accelerator{}, err
	}
	if err := s.run.Begin(ctx, accelEvent, "", s.job.Machine.Accel); err != nil {
		return accelerator{}, err
	}
	initrd := filepath.Join(r.Dir, "accelerator.cpio")
	if _, err := runner.WriteArchive(initrd, proto.Job{Version: proto.Version, ID: "accelerator"}, drivers); err != nil {
		return accelerator{}, err
	}
	probe := qemu.Probe{Launcher: l, Version: l.Machine(), Image: kernel.Image, Initrd: initrd, CacheDir: s.paths.Cache,
		Dir: r.Dir}
	accel, why, err := probe.Resolve(ctx, vm.Accel(s.job.Machine.Accel))
	if err != nil {
		return accelerator{}, err
	}
	chosen := accelerator{Accel: accel, Why: why}
	return chosen, s.run.End(ctx, accelEvent, "", chosen)
}

// checkTools names what booting needs and this host lacks, before any work is
// done.
func checkTools(ctx context.Context, job bisect.Job) error {
	if _, err := qemu.Find(ctx); err != nil {
		return err
	}
	for _, name := range job.Kernel.Config {
		if _, err := configs.Fragment(name); err != nil {
			return blame.Errorf(blame.User, "kernel.config: no fragment is called %q; there are %s", name,
				strings.Join(configs.Fragments(), ", "))
		}
	}
	w, err := workloads.Lookup(job.Workload.Name)
	if err != nil {
		return blame.Errorf(blame.User, "%w", err)
	}
	_, err = w.Files()
	return err
}
