package main

import (
	"context"
	"io"

	"bisectd/bisect/simulate"
	"bisectd/blame"
)

type simulateCmd struct {
	Plays int    `help:"Bisections for each line of the table." default:"500"`
	Seed  uint64 `help:"Where the made-up worlds start." default:"1"`
}

// Help explains the command at length.
func (simulateCmd) Help() string {
	return `Plays bisections in made-up worlds whose answer is known: histories, noise,
outliers, drift, commits that do not build, crashes that come now and then. The
policy is the one that 'bisectd run' follows; beside it stand policies which
boot each commit a fixed number of times. No kernel is built or booted. The
exit status is 3 when a goal is missed.`
}

// Run prints the table.
func (c *simulateCmd) Run(ctx context.Context, out io.Writer) error {
	if c.Plays < 1 {
		return blame.Errorf(blame.User, "--plays %d: at least 1", c.Plays)
	}
	missed, err := simulate.Table(ctx, out, c.Plays, c.Seed)
	if err != nil {
		return err
	}
	if missed > 0 {
		return statusError{exitInconclusive}
	}
	return nil
}
