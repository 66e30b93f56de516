package main

import (
	"context"
	"io"
	"os"
	"slices"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/judge"
	"bisectd/blame"
	"bisectd/kbuild"
)

type compareCmd struct {
	Old string `arg:"" help:"Image file, packaged kernel, or revision of the repository."`
	New string `arg:"" help:"The same, for the other side."`

	Job        string `help:"Job file whose repository, workload, machine and bounds to take." type:"path"`
	Repo       string `help:"Repository of the revisions." type:"path"`
	OldModules string `help:"lib/modules/RELEASE of an image file that has virtio as modules." type:"path"`
	NewModules string `help:"The same, for the other side." type:"path"`

	Workload  string            `help:"Workload, e.g. stress-ng/timer." group:"job"`
	Arg       map[string]string `help:"Arguments of the workload." placeholder:"NAME=VALUE" group:"job"`
	Duration  bisect.Duration   `help:"Of one execution." placeholder:"3s" group:"job"`
	Runs      int               `help:"Executions a boot." placeholder:"N" group:"job"`
	VCPUs     []int             `name:"vcpus" help:"Of the guests; compared at each count." placeholder:"1,2" group:"job"`
	Accel     string            `help:"auto, kvm or tcg." placeholder:"auto" group:"job"`
	Metric    string            `help:"What is compared; the workload's first unless given." group:"job"`
	MinEffect bisect.Percent    `help:"Smaller changes of the metric are none." placeholder:"5%" group:"job"`

	Again  bool   `help:"Make a finished comparison anew instead of showing its result."`
	Format string `help:"Form of the report: ${enum}." enum:"text,json" default:"text"`
}

// Help explains the command at length.
func (compareCmd) Help() string {
	return `Boots two kernels alternately and says what kind of difference there is
between them, at every vCPU count. OLD and NEW are each

  - the path of an image file (bzImage); with --old-modules and --new-modules
    where it has virtio as modules;
  - a packaged kernel: linux-image-..., a version as 6.12, or newest;
  - a revision of the repository that --repo or --job names.

What runs in the guests comes from --job, or from --workload and its fellows,
which go before what the job says. Only kernels of one configuration differ by
their code alone: that of a distribution changes with the version.

The exit status is 1 if NEW is a regression against OLD, and 3 if that stays
unclear.`
}

// Run compares.
func (c *compareCmd) Run(ctx context.Context, paths *Paths, out io.Writer) error {
	job, err := c.job()
	if err != nil {
		return err
	}
	m := newMeter(os.Stderr, job)
	defer m.close()
	s, err := c.open(ctx, *paths, job, m)
	if err != nil {
		return err
	}
	defer s.close()
	old, new := s.commits.Good()[0], s.commits.Bad()
	m.line("run %s: %s against %s", s.id, new, old)
	result, err := s.execute(ctx, func(e *bisect.Engine, ctx context.Context) (bisect.Result, error) {
		r, err := e.Compare(ctx, old, new)
		r.Ends, r.EndVCPUs = nil, nil // there is no range: the findings say all
		return r, err
	})
	if err != nil {
		return err
	}
	m.close()
	return deliver(out, result, c.Format)
}

// open finds the two kernels and finds or begins the run that compares them.
func (c *compareCmd) open(ctx context.Context, paths Paths, job bisect.Job, m *meter) (*session, error) {
	if err := paths.prepare(); err != nil {
		return nil, err
	}
	if err := checkReports(job.Report.Dir); err != nil {
		return nil, err
	}
	if err := judge.Overrides(job.Judge.Checks).Check(); err != nil {
		return nil, err
	}
	if err := checkTools(ctx, job); err != nil {
		return nil, err
	}
	kernels := map[string]kbuild.Kernel{}
	var commits []bisect.Commit
	for _, of := range []struct{ name, modules string }{{c.Old, c.OldModules}, {c.New, c.NewModules}} {
		found, err := findSide(ctx, &paths, job.Repo, of.name, of.modules)
		if err != nil {
			return nil, err
		}
		if found.built {
			kernels[found.commit.ID] = found.kernel
		} else if err := kbuild.Check(ctx); err != nil {
			return nil, err
		}
		commits = append(commits, found.commit)
	}
	if commits[0].ID == commits[1].ID {
		return nil, blame.Errorf(blame.User, "%s and %s are the same kernel: name two that differ", c.Old, c.New)
	}
	if len(kernels) == len(commits) {
		job.Repo = "" // nothing comes from it
	}
	s := &session{job: job, commits: history.New(commits[:1], commits[1:]), kernels: kernels, meter: m, paths: paths}
	return s, s.begin(ctx, c.Again)
}

// job puts together what is to run on both sides.
func (c *compareCmd) job() (bisect.Job, error) {
	job := bisect.NewJob()
	switch {
	case c.Job != "":
		var err error
		if job, err = loadJob(c.Job); err != nil {
			return job, err
		}
	case c.Workload == "":
		return job, blame.Errorf(blame.User, "nothing to run: give --workload or --job")
	}
	job.Name, job.Good, job.Bad = "compare", []string{c.Old}, c.New
	c.override(&job)
	checked := job
	if checked.Repo == "" {
		checked.Repo = "none" // a comparison may do without
	}
	err := checked.Check()
	checked.Repo = job.Repo
	return checked, err
}

// override puts the flags that were given in the place of what the job says.
func (c *compareCmd) override(job *bisect.Job) {
	if c.Repo != "" {
		job.Repo = c.Repo
	}
	if c.Workload != "" && c.Workload != job.Workload.Name {
		job.Workload.Name, job.Workload.Args, job.Judge.Metric = c.Workload, nil, ""
	}
	if len(c.Arg) > 0 {
		job.Workload.Args = map[string]any{}
		for name, value := range c.Arg {
			job.Workload.Args[name] = value
		}
	}
	if c.Duration != 0 {
		job.Workload.Duration = c.Duration
	}
	if c.Runs != 0 {
		job.Workload.Runs = c.Runs
	}
	if len(c.VCPUs) > 0 {
		job.Machine.VCPUs = slices.Sorted(slices.Values(c.VCPUs))
	}
	if c.Accel != "" {
		job.Machine.Accel = c.Accel
	}
	if c.Metric != "" {
		job.Judge.Metric = c.Metric
	}
	if c.MinEffect != 0 {
		job.Judge.MinEffect = c.MinEffect
	}
}
