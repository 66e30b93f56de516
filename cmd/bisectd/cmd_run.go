package main

import (
	"context"
	"io"
	"os"

	"bisectd/bisect"
	"bisectd/bisect/report"

	"bisectd/bisect/journal"
)

type runCmd struct {
	Job    string `arg:"" help:"Job file (YAML)." type:"path"`
	Again  bool   `help:"Make a finished run anew instead of showing its result. Kernels built before are used again."`
	Format string `help:"Form of the report: ${enum}." enum:"text,json" default:"text"`
}

// Run executes one job to its end.
func (c *runCmd) Run(ctx context.Context, paths *Paths, out io.Writer) error {
	job, err := loadJob(c.Job)
	if err != nil {
		return err
	}
	m := newMeter(os.Stderr, job)
	defer m.close()
	s, err := open(ctx, *paths, job, c.Again, m)
	if err != nil {
		return err
	}
	defer s.close()
	m.line("run %s: %d commits between %s and %s",
		s.id, s.commits.Len(), s.commits.Good()[0].Short(), s.commits.Bad().Short())
	result, err := s.execute(ctx, (*bisect.Engine).Run)
	if err != nil {
		return err
	}
	m.close()
	return deliver(out, result, c.Format)
}

// deliver shows the answer, and then writes it to files: a directory that has
// gone away meanwhile must not cost the answer of a night.
func deliver(out io.Writer, result bisect.Result, format string) error {
	if err := render(out, result, format); err != nil {
		return err
	}
	if err := writeReports(result); err != nil {
		return err
	}
	return statusOf(result)
}

func render(out io.Writer, r bisect.Result, format string) error {
	if format == "json" {
		return report.JSON(out, r)
	}
	return report.Text(out, r)
}

type reportCmd struct {
	ID     string `arg:"" name:"run" help:"Name of the run, as 'bisectd run' prints it."`
	Format string `help:"Form of the report: ${enum}." enum:"text,json" default:"text"`
}

// Run prints a finished run's report.
func (c *reportCmd) Run(ctx context.Context, paths *Paths, out io.Writer) error {
	store, err := journal.Open(paths.State)
	if err != nil {
		return err
	}
	defer store.Close()
	run, err := store.Run(ctx, c.ID)
	if err != nil {
		return err
	}
	defer run.Close()
	var result bisect.Result
	done, err := run.Finished(ctx, resultEvent, "", &result)
	if err != nil {
		return err
	}
	if !done {
		return unfinished(c.ID)
	}
	return render(out, result, c.Format)
}
