// Package proc runs commands of which nothing is left behind: not when the
// caller gives up on them, and not when the caller is killed.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"bisectd/blame"
)

// killGrace is what a process group gets between SIGTERM and SIGKILL. make
// needs some of it to delete the targets it was writing.
const killGrace = 500 * time.Millisecond

// limit is how long a command may run: far longer than any build of a kernel
// takes. What is still there then hangs, and would hold up a night.
const limit = 6 * time.Hour

// Command is how a command is run: in a process group of its own, which ends
// with the context, and whose leader gets SIGTERM should this process be
// killed.
type Command struct {
	Dir    string
	Env    []string
	Output io.Writer // what it prints
	Errors io.Writer // its standard error, where that is to be kept apart; or nil

	// Held is a locked file that every child inherits, so that the lock
	// lives as long as any of them; or nil.
	Held *os.File
}

// Environment returns the variables a build may see, and nothing else of the
// user's: ARCH, CFLAGS, MAKEFLAGS or GIT_DIR must not leak into a kernel.
func Environment(extra ...string) []string {
	env := []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, extra...)
}

// Run runs the command to its end. Where ctx ends first, the error is that of
// ctx and no process of the group is left. A command that runs for hours is
// ended in the same way, and is blamed on the infrastructure.
func (c Command) Run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		blame.Errorf(blame.Infrastructure, "%s is still running after %v", name, limit))
	defer cancel()
	// The parent death signal is sent when the thread that forked ends, not
	// the process: prctl(2), PR_SET_PDEATHSIG.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdout, cmd.Stderr = c.Output, c.Output
	if c.Errors != nil {
		cmd.Stderr = c.Errors
	}
	if c.Held != nil {
		cmd.ExtraFiles = []*os.File{c.Held}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	signal := func(s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) } // ESRCH: none is left
	var force *time.Timer
	cmd.Cancel = func() error {
		signal(syscall.SIGTERM)
		force = time.AfterFunc(killGrace, func() { signal(syscall.SIGKILL) })
		return nil
	}
	cmd.WaitDelay = 2 * killGrace

	err := cmd.Run()
	if ctx.Err() == nil {
		return err
	}
	if force != nil {
		force.Stop()
		signal(syscall.SIGKILL) // grandchildren that outlived make
	}
	return context.Cause(ctx)
}

// Text runs the command and returns what it wrote to its standard output. A
// failure carries the first line of its standard error.
func (c Command) Text(ctx context.Context, name string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	c.Output, c.Errors = &out, &complaint
	err := c.Run(ctx, name, args...)
	if err == nil {
		return out.String(), nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if line := FirstLine(complaint.String()); line != "" {
			return "", fmt.Errorf("%s: %s (%w)", name, line, err)
		}
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

// FirstLine returns the first line of text that is not blank.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
