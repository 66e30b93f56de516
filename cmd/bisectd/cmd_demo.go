package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bisectd/bisect"
	"bisectd/blame"
	"bisectd/cmd/bisectd/internal/demo"
	"bisectd/configs"
	"bisectd/kbuild/debpkg"
)

// sourcePackage is the Debian package whose tree the demonstration patches.
const sourcePackage = "linux-source-6.12"

type demoCmd struct {
	Format string   `help:"Form of the answer: ${enum}." enum:"text,json" default:"text"`
	Jobs   []string `help:"Run these jobs only." placeholder:"NAME"`
}

// Help explains the command at length.
func (demoCmd) Help() string {
	return `Takes the kernel tree of Debian's ` + sourcePackage + `, puts a history of small patches on it
(some do not build, one does not boot, three change a result) and runs one
job for each of the three. The exit status is 0 only if every commit and every
class was named right, at every vCPU count.`
}

// demoAnswer holds one job's answer against what was planted.
type demoAnswer struct {
	Job     string         `json:"job"`
	Planted demoChange     `json:"planted"`
	Found   demoChange     `json:"found"`
	Classes map[int]string `json:"class_by_vcpus"`
	Right   bool           `json:"right"`
	Builds  int            `json:"builds"`
	Reused  int            `json:"reused"` // kernels taken from the store
	Boots   int            `json:"boots"`
	Seconds float64        `json:"seconds"`

	result bisect.Result
}

type demoChange struct {
	Commit  string       `json:"commit"`
	Subject string       `json:"subject"`
	Class   bisect.Class `json:"class"`
}

// Run finds the planted changes.
func (c *demoCmd) Run(ctx context.Context, paths *Paths, out io.Writer) error {
	if err := paths.prepare(); err != nil {
		return err
	}
	jobs, err := c.prepare(ctx, paths)
	if err != nil {
		return err
	}
	var answers []demoAnswer
	for _, job := range jobs {
		a, err := solve(ctx, *paths, job)
		if err != nil {
			return err
		}
		answers = append(answers, a)
		if c.Format == "text" {
			if err := render(out, a.result, "text"); err != nil {
				return err
			}
		}
	}
	if err := c.conclude(out, answers); err != nil {
		return err
	}
	for _, a := range answers {
		if !a.Right {
			return statusError{exitInconclusive}
		}
	}
	return nil
}

// prepare makes the repository and selects the jobs.
func (c *demoCmd) prepare(ctx context.Context, paths *Paths) ([]demo.Job, error) {
	source, err := debpkg.Fetch(ctx, filepath.Join(paths.Cache, "packages"), sourcePackage)
	if err != nil {
		return nil, err
	}
	series, err := fs.Sub(configs.FS, "demo")
	if err != nil {
		return nil, err
	}
	start := time.Now()
	archive := filepath.Join(source.Dir, "usr/src", sourcePackage+".tar.xz")
	repo, err := demo.Repository(ctx, filepath.Join(paths.Cache, "demo"), archive, series, func(line string) {
		fmt.Fprintf(os.Stderr, "[%s] demo: %s\n", clock(time.Since(start)), line)
	})
	if err != nil {
		return nil, err
	}
	return selectJobs(repo, c.Jobs)
}

// solve runs one job anew; one that was interrupted goes on.
func solve(ctx context.Context, paths Paths, job demo.Job) (demoAnswer, error) {
	start := time.Now()
	m := newMeter(os.Stderr, job.Job)
	defer m.close()
	s, err := open(ctx, paths, job.Job, true, m)
	if err != nil {
		return demoAnswer{}, err
	}
	defer s.close()
	m.line("planted: %s %s: %s", job.Class, job.Planted.ID[:12], job.Planted.Subject)
	r, err := s.execute(ctx, (*bisect.Engine).Run)
	if err != nil {
		return demoAnswer{}, err
	}
	a := demoAnswer{Job: job.Name, Planted: demoChange{job.Planted.ID, job.Planted.Subject, job.Class},
		Found: demoChange{Class: r.Class}, Classes: map[int]string{}, Builds: r.Builds, Reused: r.Reused, Boots: r.Boots,
		Seconds: time.Since(start).Seconds(), result: r}
	if r.FirstNew != nil {
		a.Found.Commit, a.Found.Subject = r.FirstNew.ID, r.FirstNew.Subject
	}
	a.Right = a.Found == a.Planted && len(r.Findings) == len(job.Machine.VCPUs)
	for _, f := range r.Findings {
		a.Classes[f.VCPUs] = string(f.Class)
		a.Right = a.Right && f.Class == job.Class
	}
	return a, nil
}

// conclude prints the table of answers, the total last.
func (c *demoCmd) conclude(out io.Writer, answers []demoAnswer) error {
	if c.Format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(answers)
	}
	if err := say(out, "%-22s %-18s %-13s %-18s %-13s %6s %6s %6s %8s\n", "job", "planted", "", "found", "",
		"builds", "reused", "boots", "seconds"); err != nil {
		return err
	}
	var total demoAnswer
	right := 0
	for _, a := range answers {
		if err := say(out, "%-22s %-18s %-13.12s %-18s %-13.12s %6d %6d %6d %8.0f\n",
			a.Job, a.Planted.Class, a.Planted.Commit, a.Found.Class, a.Found.Commit,
			a.Builds, a.Reused, a.Boots, a.Seconds); err != nil {
			return err
		}
		total.Builds, total.Reused, total.Boots = total.Builds+a.Builds, total.Reused+a.Reused, total.Boots+a.Boots
		total.Seconds += a.Seconds
		if a.Right {
			right++
		}
	}
	return say(out, "%-22s %-65s %6d %6d %6d %8.0f\n", fmt.Sprintf("%d of %d right", right, len(answers)), "",
		total.Builds, total.Reused, total.Boots, total.Seconds)
}

func selectJobs(repo demo.Repo, names []string) ([]demo.Job, error) {
	all, err := repo.Jobs()
	if err != nil || len(names) == 0 {
		return all, err
	}
	var jobs []demo.Job
	for _, name := range names {
		i := slices.IndexFunc(all, func(j demo.Job) bool { return j.Name == name })
		if i < 0 {
			return nil, blame.Errorf(blame.User, "the demonstration has no job %q", name)
		}
		jobs = append(jobs, all[i])
	}
	return jobs, nil
}
