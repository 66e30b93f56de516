package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bisectd/blame"
	"bisectd/vm"
)

// config is a machine whose QEMU is this test binary.
func config(t *testing.T, scenario string) vm.Config {
	t.Helper()
	return vm.Config{
		Image: scenario, Initrd: "initrd", VCPUs: 1, MemoryMiB: 64, Accel: vm.TCG, Dir: t.TempDir(),
		BootDeadline: time.Minute, RunDeadline: time.Minute,
	}
}

func TestEndings(t *testing.T) {
	const short = 300 * time.Millisecond
	tests := []struct {
		scenario  string
		boot, run time.Duration
		ending    vm.Ending
		detail    string
	}{
		{scenario: "end", ending: vm.Completed},
		{scenario: "end with error", ending: vm.Completed, detail: "no such step"},
		{scenario: "end and stay", ending: vm.Completed},
		{scenario: "panic after the end", ending: vm.Completed},
		{scenario: "exit", ending: vm.NoBoot, detail: "the guest restarted; last line: Booting"},
		{scenario: "hello and exit", ending: vm.Reset, detail: "the guest restarted; last line: reboot: Restarting system"},
		{
			scenario: "hang", run: short, ending: vm.Hung,
			detail: "no end record within 300ms; guest running; last line: still here",
		},
		{scenario: "hang early", boot: short, ending: vm.NoBoot, detail: "no agent within 300ms; guest running; last line: "},
		{scenario: "panic event", ending: vm.Panicked, detail: "QEMU reports a panic; last line: "},
		{scenario: "panic text", ending: vm.Panicked, detail: "Kernel panic - not syncing: x"},
		{scenario: "panic early", ending: vm.NoBoot, detail: "Kernel panic - not syncing: x"},
		{scenario: "complain", ending: vm.QEMUFailed, detail: "QEMU: exit status 1: qemu: could not allocate memory"},
		{scenario: "crash", ending: vm.QEMUFailed, detail: "QEMU: signal: killed"},
		{scenario: "garbage", ending: vm.QEMUFailed, detail: "result channel: frame 1 starts with 0x69676f6c: not a frame"},
		{scenario: "signal", ending: vm.QEMUFailed, detail: "QEMU was told to end by a signal from outside"},
	}
	for _, tt := range tests {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, tt.scenario)
			if tt.boot > 0 {
				cfg.BootDeadline = tt.boot
			}
			if tt.run > 0 {
				cfg.RunDeadline = tt.run
			}
			o, err := (&Launcher{path: os.Args[0]}).Run(t.Context(), cfg)
			if o.Ending != tt.ending || o.Detail != tt.detail {
				t.Errorf("%s: %q; want %s: %q", o.Ending, o.Detail, tt.ending, tt.detail)
			}
			if spoke := strings.HasPrefix(tt.scenario, "panic "); o.Spoke != spoke {
				t.Errorf("the kernel spoke: %v, want %v", o.Spoke, spoke)
			}
			failed := tt.ending == vm.QEMUFailed
			if (err != nil) != failed || failed && blame.Of(err) != blame.Infrastructure {
				t.Errorf("error %v", err)
			}
			if o.Total > time.Minute/2 {
				t.Errorf("took %v: as long as a deadline that does not apply", o.Total)
			}
			if o.Total <= 0 || o.Total < o.Boot || o.Console == "" || len(o.Command) == 0 {
				t.Errorf("incomplete: %+v", o)
			}
		})
	}
}

// TestDeaf ends a QEMU that hangs itself.
func TestDeaf(t *testing.T) {
	cfg := config(t, "hang deaf")
	cfg.RunDeadline = 100 * time.Millisecond
	o, err := (&Launcher{path: os.Args[0]}).Run(t.Context(), cfg)
	if err != nil || o.Ending != vm.Hung {
		t.Errorf("%s: %s, %v", o.Ending, o.Detail, err)
	}
}

func TestConsoleLogIsBounded(t *testing.T) {
	o, err := (&Launcher{path: os.Args[0]}).Run(t.Context(), config(t, "flood"))
	if err != nil || o.Ending != vm.Completed {
		t.Fatalf("%s: %s, %v", o.Ending, o.Detail, err)
	}
	if info, err := os.Stat(o.Console); err != nil || info.Size() < maxConsole || info.Size() > maxConsole+100 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*vm.Config){
		"auto":        func(c *vm.Config) { c.Accel = vm.Auto },
		"no vCPU":     func(c *vm.Config) { c.VCPUs = 0 },
		"no memory":   func(c *vm.Config) { c.MemoryMiB = 0 },
		"no deadline": func(c *vm.Config) { c.RunDeadline = 0 },
		"no dir":      func(c *vm.Config) { c.Dir = "/no/such/dir" },
	} {
		cfg := config(t, "end")
		spoil(&cfg)
		o, err := (&Launcher{path: os.Args[0]}).Run(t.Context(), cfg)
		if err == nil || blame.Of(err) != blame.Infrastructure || o.Ending != vm.QEMUFailed {
			t.Errorf("%s: %s, %v", name, o.Ending, err)
		}
	}
	o, err := (&Launcher{path: "/no/such/qemu"}).Run(t.Context(), config(t, "end"))
	if err == nil || blame.Of(err) != blame.Infrastructure || o.Ending != vm.QEMUFailed {
		t.Errorf("no QEMU: %s, %v", o.Ending, err)
	}
}

func TestRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := (&Launcher{path: os.Args[0]}).Run(ctx, config(t, "hang"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := (&Launcher{path: os.Args[0]}).Run(ctx, config(t, "end")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the start: %v", err)
	}
}

func TestFindNothing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Find(t.Context())
	if err == nil || blame.Of(err) != blame.User || !strings.Contains(err.Error(), "qemu-system-x86") {
		t.Errorf("got %v", err)
	}
}

// TestKilledParent kills a process that runs a boot, with a fake QEMU and with
// the real one: QEMU must not survive it.
func TestKilledParent(t *testing.T) {
	t.Run("fake", func(t *testing.T) { killParent(t, os.Args[0], "hang", "initrd") })
	t.Run("real", func(t *testing.T) { killParent(t, realQEMU(t).path, kernelImage(t), "/dev/zero") })
}

func killParent(t *testing.T, qemu, image, initrd string) {
	if initrd == "/dev/zero" {
		initrd = filepath.Join(t.TempDir(), "initrd")
		if err := os.WriteFile(initrd, make([]byte, 4096), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	parent := exec.Command(os.Args[0], "boot", qemu, image, initrd)
	parent.Stderr = os.Stderr
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	defer func() {
		_ = parent.Process.Kill()
		if child != 0 && running(child) {
			_ = unix.Kill(child, unix.SIGKILL)
		}
	}()
	await(t, "a child", func() bool {
		child = childOf(t, parent.Process.Pid)
		return child != 0
	})
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	await(t, "the end of the child", func() bool { return !running(child) })
}

// await polls until condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for start := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatal("waited in vain for ", what)
		}
	}
}

// childOf returns a process that has been executed by the process parent.
func childOf(t *testing.T, parent int) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		var pid, ppid int
		var state string
		if pid, state, ppid = stat(path); ppid == parent && state != "Z" {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if bytes.Contains(command, []byte("-nodefaults")) {
				return pid
			}
		}
	}
	return 0
}

// running says whether a process is there and is not merely unburied.
func running(pid int) bool {
	_, state, _ := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return state != "" && state != "Z" && unix.Kill(pid, 0) == nil
}

// stat reads the first fields of /proc/PID/stat (proc(5)).
func stat(path string) (pid int, state string, ppid int) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, "", 0
	}
	_, _ = fmt.Sscan(string(text), &pid)
	_, rest, _ := strings.Cut(string(text), ") ")
	_, _ = fmt.Sscan(rest, &state, &ppid)
	return pid, state, ppid
}
