package kbuild

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
)

// killGrace is what a process group gets between SIGTERM and SIGKILL. make
// needs some of it to delete the targets it was writing.
const killGrace = 500 * time.Millisecond

// process is how a command is run: in a process group of its own, which ends
// with the context, and whose leader gets SIGTERM should bisectd be killed.
type process struct {
	dir    string
	env    []string
	held   *os.File  // a locked file that every child inherits, so that the lock lives as long as any of them; or nil
	output io.Writer // what the command prints
	errors io.Writer // its standard error, where it is to be kept apart; or nil
}

// environment returns the variables a build may see, and nothing else of the
// user's: ARCH, CFLAGS, MAKEFLAGS or GIT_DIR must not leak into a kernel.
func environment(extra ...string) []string {
	env := []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, extra...)
}

// run runs the command to its end. Where ctx ends first, the error is that of
// ctx and no process of the group is left.
func (p process) run(ctx context.Context, name string, args ...string) error {
	// The parent death signal is sent when the thread that forked ends, not
	// the process: prctl(2), PR_SET_PDEATHSIG.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.Stdout, cmd.Stderr = p.output, p.output
	if p.errors != nil {
		cmd.Stderr = p.errors
	}
	if p.held != nil {
		cmd.ExtraFiles = []*os.File{p.held}
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

// text runs the command and returns what it wrote to its standard output. A
// failure carries the first line of its standard error.
func (p process) text(ctx context.Context, name string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	p.output, p.errors = &out, &complaint
	err := p.run(ctx, name, args...)
	if err == nil {
		return out.String(), nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if line := firstLine(complaint.String()); line != "" {
			return "", fmt.Errorf("%s: %s (%w)", name, line, err)
		}
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
