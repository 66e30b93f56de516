package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/journal"
	"bisectd/bisect/judge"
	"bisectd/bisect/runner"
	"bisectd/blame"
)

type judgeCmd struct {
	ID        string         `arg:"" name:"run" help:"Name of the run, as 'bisectd run' prints it."`
	Job       string         `help:"Take the rules of this job file." type:"path"`
	MinEffect bisect.Percent `help:"Smaller changes of the metric are none, e.g. 3%." placeholder:"N%"`
	Error     bisect.Percent `help:"Accepted chance of a wrong answer over the whole walk." placeholder:"N%"`
	Metric    string         `help:"Judge by another metric of the workload."`
	Signal    string         `help:"Walk on this signal: auto, metric, crash or a check of the probe."`
	Format    string         `help:"Form of the answer: ${enum}." enum:"text,json" default:"text"`
}

// Help explains the command at length.
func (judgeCmd) Help() string {
	return `Answers the run's job once more from the boots in its journal, under the rules
of this bisectd or under other bounds, and says what differs from the answer
that is stored. Nothing is built or booted, and what is stored stays as it is.

New rules can ask for boots that the run never made. The answer then is
inconclusive (exit status 3) and names the boot.`
}

// judged is the answer of 'bisectd judge'.
type judged struct {
	Run     string        `json:"run"`
	Used    int           `json:"used"`              // boots of the run that the rules of now ask for
	Boots   int           `json:"boots"`             // that the run has
	Missing string        `json:"missing,omitempty"` // the boot that could not be asked for
	Differs []difference  `json:"differs"`
	Now     bisect.Result `json:"now"`
}

// Run judges a run's stored observations again.
func (c *judgeCmd) Run(ctx context.Context, paths *Paths, out io.Writer) error {
	store, err := journal.Open(paths.State)
	if err != nil {
		return err
	}
	defer store.Close()
	events, err := store.Events(ctx, c.ID)
	if err != nil {
		return err
	}
	job, before, err := answered(c.ID, events)
	if err != nil {
		return err
	}
	if err := c.change(&job); err != nil {
		return err
	}
	answer, err := rejudge(ctx, job, before, events)
	if err != nil {
		return err
	}
	answer.Run, answer.Now.Run = c.ID, c.ID
	if c.Format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(answer)
	} else {
		err = answer.text(out)
	}
	if err != nil {
		return err
	}
	return statusOf(answer.Now)
}

// answered returns the job of a finished run, with the commits that its
// revisions stood for, and its result.
func answered(id string, events []journal.Event) (bisect.Job, bisect.Result, error) {
	var job bisect.Job
	var result bisect.Result
	done := false
	for _, e := range events {
		if e.Kind != resultEvent {
			continue
		}
		var err error
		if e.Phase == journal.Begin {
			job = bisect.Job{}
			err = json.Unmarshal(e.Data, &job)
		} else {
			result, done = bisect.Result{}, true
			err = json.Unmarshal(e.Data, &result)
		}
		if err != nil {
			return job, result, blame.Errorf(blame.Infrastructure, "run %s: its result cannot be read: %w", id, err)
		}
	}
	if !done {
		return job, result, unfinished(id)
	}
	return job, result, nil
}

func unfinished(id string) error {
	return blame.Errorf(blame.User,
		"run %s is not finished or does not exist; 'bisectd run' with its job file goes on with it", id)
}

// change applies the rules that were given.
func (c *judgeCmd) change(job *bisect.Job) error {
	if c.Job != "" {
		other, err := loadJob(c.Job)
		if err != nil {
			return err
		}
		job.Judge = other.Judge
	}
	if c.MinEffect != 0 {
		job.Judge.MinEffect = c.MinEffect
	}
	if c.Error != 0 {
		job.Judge.Error = c.Error
	}
	if c.Metric != "" {
		job.Judge.Metric = c.Metric
	}
	if c.Signal != "" {
		job.Judge.Signal = c.Signal
	}
	if err := judge.Overrides(job.Judge.Checks).Check(); err != nil {
		return err
	}
	return job.Check()
}

// rejudge replays the engine over the events.
func rejudge(ctx context.Context, job bisect.Job, before bisect.Result, events []journal.Event) (judged, error) {
	commits, err := history.Open(ctx, job.Repo, job.Good, job.Bad)
	if err != nil {
		return judged{}, err
	}
	if commits.Bad().ID != before.Bad.ID || commits.Good()[0].ID != before.Good.ID {
		return judged{}, blame.Errorf(blame.User, "%s to %s are other commits than when the run was made: "+
			"point them to %s and %s again", job.Good[0], job.Bad, before.Good.Short(), before.Bad.Short())
	}
	replay, err := runner.NewReplay(events, job.Judge.Checks)
	if err != nil {
		return judged{}, err
	}
	engine, err := newEngine(job, commits, replay, nil)
	if err != nil {
		return judged{}, err
	}
	now, err := engine.Run(ctx)
	answer := judged{Now: now}
	answer.Used, answer.Boots = replay.Used()
	var missing *runner.MissingError
	if errors.As(err, &missing) {
		answer.Missing = missing.Error()
		answer.Now.Class, answer.Now.FirstNew, answer.Now.Reasons = bisect.Inconclusive, nil, nil
		return answer, nil
	}
	answer.Differs = differences(before, now)
	return answer, err
}

// text writes what differs, and the reasons for what is now.
func (a judged) text(out io.Writer) error {
	err := say(out, "run %s: %d of its %d boots judged again, nothing was booted\n", a.Run, a.Used, a.Boots)
	switch {
	case a.Missing != "":
		err = errors.Join(err, say(out, "Inconclusive: these rules ask for a boot that the run does not have:\n  %s.\n"+
			"'bisectd run --again' with the job file makes the run anew under them.\n", a.Missing))
	case len(a.Differs) == 0:
		err = errors.Join(err, say(out, "The verdict stays: %s.\n", verdict(a.Now)))
	default:
		err = errors.Join(err, say(out, "The verdict differs from the one that is stored:\n"))
	}
	for _, d := range a.Differs {
		err = errors.Join(err, say(out, "  %s\n    stored  %s\n    now     %s\n", d.What, d.Stored, d.Now))
	}
	if len(a.Now.Reasons) > 0 {
		err = errors.Join(err, say(out, "Why, now:\n"))
	}
	for _, why := range a.Now.Reasons {
		err = errors.Join(err, say(out, "  - %s\n", why))
	}
	return err
}

// verdict is a result in one line.
func verdict(r bisect.Result) string {
	if r.FirstNew == nil {
		return string(r.Class)
	}
	return fmt.Sprintf("%s, by %s", r.Class, r.FirstNew)
}
