package demo

import (
	"fmt"

	"github.com/goccy/go-yaml"

	"bisectd/bisect"
	"bisectd/blame"
)

// Job is a job over the demonstration's range, and its answer.
type Job struct {
	bisect.Job
	Planted Commit       // the first new commit
	Class   bisect.Class // of the change
	Shows   string       // what the commit does, in one sentence
}

// vcpus are the sizes of the machines on which the jobs calibrate.
var vcpus = []int{1, 2}

// Jobs returns the jobs of the series. They are checked like a job file of a
// user, so the workloads must have been registered.
func (r Repo) Jobs() ([]Job, error) {
	var jobs []Job
	for _, t := range r.tasks {
		j, err := r.job(t)
		if err != nil {
			return nil, blame.Errorf(blame.Infrastructure, "demonstration: job %q: %w", t.Name, err)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func (r Repo) job(t task) (Job, error) {
	file, err := yaml.Marshal(map[string]any{
		"name":     t.Name,
		"repo":     r.Dir,
		"good":     []string{r.Good},
		"bad":      r.Bad,
		"machine":  map[string]any{"vcpus": vcpus},
		"workload": t.Workload,
		"judge":    map[string]any{"metric": t.Metric},
	})
	if err != nil {
		return Job{}, err
	}
	parsed, err := bisect.ParseJob(file)
	if err != nil {
		return Job{}, err
	}
	for _, c := range r.Commits {
		if c.Patch == t.Planted {
			return Job{Job: parsed, Planted: c, Class: t.Class, Shows: t.Shows}, nil
		}
	}
	return Job{}, fmt.Errorf("no commit of %s", t.Planted)
}
