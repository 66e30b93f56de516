package main

import (
	"context"
	"io"
	"os"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/runner"
)

// testCmd is 'bisectd test'. Its file cannot have that name.
type testCmd struct {
	Commit string `arg:"" help:"Revision of the job's repository."`
	Job    string `help:"Job file (YAML)." type:"path" required:""`
}

// Help explains the command at length.
func (testCmd) Help() string {
	return `Builds and boots one commit and says on which side of the job's change it
stands. The ends of the job are measured first, once: what was measured is
taken from the journal afterwards, where 'bisectd run' finds it as well.

Exit status, as 'git bisect run' understands it:
  0    old: like the good end
  1    new: like the bad end
  125  skip: it does not build or boot, or stays undecided
  128  stop: a mistake, or a failure of the host; one line says which
  130  interrupted

    git bisect start BAD GOOD
    git bisect run bisectd test HEAD --job JOB.yaml

'bisectd run' does the same and more: it confirms the commit it finds with
fresh boots, watches the host during the walk, and says what kind of change
it is.`
}

// Run places one commit.
func (c *testCmd) Run(ctx context.Context, paths *Paths, out io.Writer) error {
	job, err := loadJob(c.Job)
	if err != nil {
		return err
	}
	commit, err := history.Lookup(ctx, job.Repo, c.Commit)
	if err != nil {
		return err
	}
	m := newMeter(os.Stderr, job)
	defer m.close()
	s, err := open(ctx, *paths, job, false, m)
	if err != nil {
		return err
	}
	defer s.close()
	var placed bisect.Test
	err = s.with(ctx, func(e *bisect.Engine, _ *runner.Runner, _ string) (err error) {
		placed, err = e.Test(ctx, commit)
		return err
	})
	if err != nil {
		return err
	}
	m.close()
	if err := say(out, "%s is %s: %s\n", placed.Commit, placed.Verdict, placed.Detail); err != nil {
		return err
	}
	return placing(placed.Verdict)
}

// placing maps a verdict to the exit status that git-bisect(1) asks for.
func placing(v bisect.Verdict) error {
	switch v {
	case bisect.Old:
		return nil
	case bisect.New:
		return statusError{exitNew}
	default:
		return statusError{exitSkip}
	}
}
