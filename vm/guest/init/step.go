package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bisectd/vm/guest/proto"
)

// path is where programs are looked for, by the agent and by the steps.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// baseEnv is the environment of every step; Step.Env comes after it and wins.
var baseEnv = []string{
	"PATH=" + path,
	"HOME=/",
	"TMPDIR=/tmp",
	"LC_ALL=C",
}

// execute runs a step as a process group of its own. Its output goes to files,
// not to pipes, so that nothing wakes the agent before the program ends.
func execute(s proto.Step, trace *tracer) proto.StepResult {
	result := proto.StepResult{ID: s.ID, Stdout: []byte{}, Stderr: []byte{}}
	if len(s.Argv) == 0 {
		result.Error = "no program"
		return result
	}
	stdout, err := os.CreateTemp("", "stdout")
	if err != nil {
		result.Error = err.Error()
		return result
	}
	defer discard(stdout)
	stderr, err := os.CreateTemp("", "stderr")
	if err != nil {
		result.Error = err.Error()
		return result
	}
	defer discard(stderr)

	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	if trace != nil && cmd.Err == nil {
		cmd = exec.Command("/proc/self/exe", append([]string{startTraced, cmd.Path}, s.Argv...)...)
	}
	cmd.Env = append(append(cmd.Env, baseEnv...), s.Env...)
	cmd.Dir = s.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	wait(cmd, time.Duration(s.Timeout)*time.Millisecond, &result)
	if trace != nil {
		trace.stop()
	}
	killStrays()

	var cutOut, cutErr bool
	result.Stdout, cutOut = head(stdout, proto.MaxOutput)
	result.Stderr, cutErr = head(stderr, proto.MaxOutput)
	result.Truncated = cutOut || cutErr
	return result
}

// startTraced as first argument makes this program the starter of a traced
// step, whose path and arguments follow.
const startTraced = "start-traced"

// The monitor thread of a Go runtime (sysmon in runtime/proc.go) polls with a
// timer each time: fifty times at 20 us, then ever more rarely, down to each
// 10 ms, and not at all when it has noticed that nothing runs. Before the first
// event counts, a traced step gives the agent's settling to come to that end,
// and then spins as long for its own to become rare.
const settling = 100 * time.Millisecond

// becomeTraced lets the histograms count and becomes the program, with which
// the timers of this runtime are gone too.
func becomeTraced(path string, argv []string) error {
	t := tracer{histograms(tracefs)}
	time.Sleep(settling)
	for start := time.Now(); time.Since(start) < settling; {
	}
	t.start()
	return syscall.Exec(path, argv, os.Environ())
}

// wait starts cmd and waits for it. When the time is up (zero is no limit) it
// kills the process group.
func wait(cmd *exec.Cmd, timeout time.Duration, result *proto.StepResult) {
	start := time.Now()
	if err := cmd.Start(); err != nil {
		result.Error = err.Error()
		return
	}
	var deadline *time.Timer
	if timeout > 0 {
		deadline = time.AfterFunc(timeout, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	}
	err := cmd.Wait()
	result.WallNS = time.Since(start).Nanoseconds()
	if deadline != nil {
		result.TimedOut = !deadline.Stop()
	}
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what the program left running
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		result.Error = err.Error()
		return
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	result.Exit = status.ExitStatus()
	if status.Signaled() {
		result.Exit = 128 + int(status.Signal())
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	result.UserNS = usage.Utime.Nano()
	result.SystemNS = usage.Stime.Nano()
	result.Voluntary = usage.Nvcsw
	result.Forced = usage.Nivcsw
}

// killStrays ends what escaped from the step's process group, so that it does
// not run beside the next step, and buries the dead. kill(-1) spares nobody
// but the first process, so only the first process may call it.
func killStrays() {
	if os.Getpid() != 1 {
		return
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // ECHILD: none left
		}
	}
}

// head returns the first limit bytes of f and whether there are more.
func head(f *os.File, limit int64) (text []byte, cut bool) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, limit))
	if err != nil {
		return text, true
	}
	info, err := f.Stat()
	return text, err != nil || info.Size() > limit
}

// discard closes a temporary file and removes it.
func discard(f *os.File) {
	f.Close()
	os.Remove(f.Name())
}
