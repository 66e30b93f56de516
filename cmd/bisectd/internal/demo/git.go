package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"bisectd/blame"
)

// repository is a bare repository that native git works on. Its commands see
// neither the user's configuration nor a GIT_* variable, so that the same
// input gives the same object ids everywhere.
type repository struct {
	dir string
}

// settings make git write for speed (the repository is a cache) and, where
// git would not, to the disk: the rename that publishes it must not overtake
// the objects.
var settings = []string{
	"-c", "core.compression=1",
	"-c", "core.fsync=committed,derived-metadata,reference",
	"-c", "gc.auto=0",
}

// git runs one git command and returns what it printed, without the final
// newline. Extra variables may be given as NAME=value.
func (r repository) git(ctx context.Context, stdin io.Reader, env []string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := r.command(ctx, env, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", failed(ctx, cmd, err, stderr.String())
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}

func (r repository) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := command(ctx, "git", append(settings[:len(settings):len(settings)], args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(gitless(os.Environ()),
		"GIT_DIR="+r.dir,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"LC_ALL=C",
	)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// command prepares a subprocess that dies with ctx, its children included.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// failed turns the exit of a subprocess into an error that quotes what it had
// to say. A cancelled context is the reason wherever there is one.
func failed(ctx context.Context, cmd *exec.Cmd, err error, stderr string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said := strings.ReplaceAll(strings.TrimSpace(stderr), "\n", "; ")
	if said == "" {
		return blame.Errorf(blame.Infrastructure, "%s: %w", describe(cmd), err)
	}
	return blame.Errorf(blame.Infrastructure, "%s: %w: %s", describe(cmd), err, said)
}

// describe names a command by its program and sub-command.
func describe(cmd *exec.Cmd) string {
	args := cmd.Args
	if args[0] != "git" {
		return args[0]
	}
	return fmt.Sprintf("git %s", args[1+len(settings)])
}

func gitless(env []string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, "GIT_") {
			kept = append(kept, v)
		}
	}
	return kept
}
