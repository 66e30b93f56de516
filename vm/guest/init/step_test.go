package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bisectd/vm/guest/proto"
)

func TestExecute(t *testing.T) {
	tests := []struct {
		name string
		step proto.Step
		want proto.StepResult
	}{
		{
			"output and status",
			proto.Step{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}},
			proto.StepResult{Exit: 3, Stdout: []byte("out\n"), Stderr: []byte("err\n")},
		},
		{
			"environment and directory",
			proto.Step{Argv: []string{"sh", "-c", "echo $HOME $A; pwd"}, Env: []string{"A=b"}, Dir: "/usr"},
			proto.StepResult{Stdout: []byte("/ b\n/usr\n")},
		},
		{"killed", proto.Step{Argv: []string{"sh", "-c", "kill -SEGV $$"}}, proto.StepResult{Exit: 128 + 11}},
		{"no program", proto.Step{}, proto.StepResult{Error: "no program"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := execute(tt.step, nil)
			if got.Exit != tt.want.Exit || got.Error != tt.want.Error || got.TimedOut || got.Truncated ||
				!bytes.Equal(got.Stdout, tt.want.Stdout) || !bytes.Equal(got.Stderr, tt.want.Stderr) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestExecuteMissingProgram(t *testing.T) {
	got := execute(proto.Step{Argv: []string{"/no/such/program"}}, nil)
	if got.Error == "" {
		t.Errorf("no error: %+v", got)
	}
}

// TestExecuteTimeout ends a program whose child would live on for an hour.
func TestExecuteTimeout(t *testing.T) {
	got := execute(proto.Step{Argv: []string{"sh", "-c", "sleep 3600 & echo $!; wait"}, Timeout: 200}, nil)
	if !got.TimedOut || got.Exit != 128+9 {
		t.Fatalf("got %+v", got)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(got.Stdout)))
	if err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("process %d of the group is still there", pid)
		}
	}
}

// alive says whether pid runs; one that is dead and not yet waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return unix.Kill(pid, 0) == nil
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(after, []byte("Z"))
}

func TestExecuteCapsOutput(t *testing.T) {
	tests := []struct {
		size int
		cut  bool
	}{{proto.MaxOutput, false}, {proto.MaxOutput + 1, true}}
	for _, tt := range tests {
		got := execute(proto.Step{Argv: []string{"head", "-c", strconv.Itoa(tt.size), "/dev/zero"}}, nil)
		if len(got.Stdout) != proto.MaxOutput || got.Truncated != tt.cut {
			t.Errorf("%d bytes: kept %d, truncated %v", tt.size, len(got.Stdout), got.Truncated)
		}
	}
}

func TestExecuteCountsTime(t *testing.T) {
	got := execute(proto.Step{Argv: []string{"sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"}}, nil)
	if got.UserNS+got.SystemNS <= 0 || got.WallNS <= 0 {
		t.Errorf("got %+v", got)
	}
}
