// Command bisectd finds the commit that changed a result in a Linux kernel
// tree and says what kind of change it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"bisectd/bisect"
	"bisectd/blame"

	_ "bisectd/workloads/stressng" // registers the stress-ng workloads
)

// Exit statuses, as the help text documents them.
const (
	exitDone         = 0
	exitRegression   = 1
	exitUser         = 2
	exitInconclusive = 3
	exitUnfit        = 4
	exitNew          = 1   // of test, see git-bisect(1)
	exitSkip         = 125 // of test
	exitStop         = 128 // of test
	exitFailed       = 70  // EX_SOFTWARE of sysexits(3): bisectd or the host failed, no verdict
	exitInterrupted  = 130 // 128 + SIGINT
)

const description = `Find the commit that changed a result, and say what kind of change it is.

Exit status:
  0    done; no regression was found
  1    a regression was found (run, compare, judge)
  2    a mistake in the job, the arguments or the set-up; one line says which
  3    inconclusive: a range or several candidates are left
  4    this host cannot do the work (doctor)
  70   the host or bisectd failed; nothing was judged, the same command goes on
  130  interrupted; the same command goes on where it stopped
'bisectd test' has statuses of its own, which its help lists.`

type cli struct {
	Paths

	Run     runCmd     `cmd:"" help:"Run one job in the foreground. After an interruption the same command resumes."`
	Report  reportCmd  `cmd:"" help:"Print the report of a run again."`
	Compare compareCmd `cmd:"" help:"Compare two kernels: commits, packaged ones or images."`
	Test    testCmd    `cmd:"" help:"Build, boot and place one commit; usable under 'git bisect run'."`
	Judge   judgeCmd   `cmd:"" help:"Judge the boots of a finished run again, under the rules of now."`
	Plan    planCmd    `cmd:"" help:"Predict what a job is going to cost; nothing is built or booted."`
	Demo    demoCmd    `cmd:"" help:"Make a kernel history with planted changes and find them."`
	Doctor  doctorCmd  `cmd:"" help:"Tell whether this host can do the work."`

	Simulate simulateCmd `cmd:"" help:"Measure the policy in made-up worlds."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// Paths says where bisectd keeps what it writes.
type Paths struct {
	State   string `help:"Where the journal and its artefacts are." env:"BISECTD_STATE" default:"${state}"`
	Cache   string `help:"Where work trees and built kernels are." env:"BISECTD_CACHE" default:"${cache}"`
	MinFree int    `help:"Refuse to start with fewer GiB free." env:"BISECTD_MIN_FREE" default:"8"`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	var c cli
	parser, err := kong.New(&c, kong.Name("bisectd"), kong.Description(description), defaults(),
		kong.Writers(stdout, stderr), kong.BindTo(stdout, new(io.Writer)), kong.UsageOnError())
	if err != nil {
		return fail(stderr, err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		status := fail(stderr, blame.Errorf(blame.User, "%w; see bisectd --help", err))
		if slices.Contains(args, "test") { // rather stop a git bisect than tell it a verdict
			return exitStop
		}
		return status
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(&c.Paths)
	switch status := fail(stderr, err); {
	case command.Selected().Name != "test", errors.As(err, new(statusError)), status == exitInterrupted, err == nil:
		return status
	default:
		return exitStop
	}
}

// fail prints one line about an error and chooses the exit status by who is to blame.
func fail(stderr io.Writer, err error) int {
	var status statusError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return status.code
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "bisectd: interrupted; the same command goes on where this one stopped")
		return exitInterrupted
	case blame.Of(err) == blame.User:
		fmt.Fprintln(stderr, "bisectd:", err)
		return exitUser
	default:
		fmt.Fprintf(stderr, "bisectd: %v (blame: %s); nothing was judged by it, the same command goes on\n",
			err, blame.Of(err))
		return exitFailed
	}
}

// statusError ends the command with a status after all was said.
type statusError struct{ code int }

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// statusOf maps a result to the exit status.
func statusOf(r bisect.Result) error {
	switch r.Class {
	case bisect.Regression:
		return statusError{exitRegression}
	case bisect.Inconclusive:
		return statusError{exitInconclusive}
	default:
		return nil
	}
}
