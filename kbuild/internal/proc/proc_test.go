package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// childVariable makes the test binary run a command for ever, to be killed.
const childVariable = "PROC_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	c := Command{Env: Environment(), Output: os.Stdout}
	err := c.Run(context.Background(), "sh", "-c", "echo ready; exec sleep 1000")
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestCommandEndsWithItsParent(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	text := bufio.NewReader(out)
	if line, err := text.ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The output ends when the command, which inherited it, is gone too.
	if err := out.(*os.File).SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := text.ReadByte(); err != io.EOF {
		t.Errorf("the command is still running: %v", err)
	}
}

func TestText(t *testing.T) {
	c := Command{Env: Environment("EXTRA=1")}
	out, err := c.Text(context.Background(), "sh", "-c", "echo noise >&2; echo $EXTRA $LC_ALL")
	if err != nil || out != "1 C\n" {
		t.Errorf("got %q, %v", out, err)
	}
	_, err = c.Text(context.Background(), "sh", "-c", "echo out; echo first >&2; echo second >&2; exit 3")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || err.Error() != "sh: first (exit status 3)" {
		t.Errorf("got %v", err)
	}
	if _, err := c.Text(context.Background(), "no-such-program"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestEnvironmentLeavesTheUsersOut(t *testing.T) {
	t.Setenv("MAKEFLAGS", "-k")
	t.Setenv("GIT_DIR", "/nowhere")
	env := Environment()
	for _, v := range env {
		if strings.HasPrefix(v, "MAKEFLAGS=") || strings.HasPrefix(v, "GIT_DIR=") {
			t.Error(v)
		}
	}
	if !slices.Contains(env, "PATH="+os.Getenv("PATH")) {
		t.Error("no PATH")
	}
}

// TestCancelEndsTheGroup has a child and a grandchild that are deaf to SIGTERM.
func TestCancelEndsTheGroup(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	ready := &notice{reached: func() { cancel(cause) }}
	c := Command{Env: Environment(), Output: ready, Held: write}
	err = c.Run(ctx, "sh", "-c", "trap '' TERM; sh -c 'echo ready; sleep 1000; sleep 1000' ; sleep 1000")
	write.Close()
	if !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	// The pipe reaches its end when nobody who inherited the other end lives.
	if err := read.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := read.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("somebody of the group is still alive")
	}
}

func TestEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	started := false
	c := Command{Env: Environment(), Output: &notice{reached: func() { started = true }}}
	if err := c.Run(ctx, "echo", "started"); !errors.Is(err, context.Canceled) || started {
		t.Errorf("got %v, started: %v", err, started)
	}
}

// notice calls reached when something is written to it.
type notice struct{ reached func() }

func (n *notice) Write(p []byte) (int, error) {
	n.reached()
	return len(p), nil
}
