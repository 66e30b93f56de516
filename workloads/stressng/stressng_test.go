package stressng

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bisectd/blame"
	"bisectd/workloads"
)

// fake is a program that needs no stress-ng on the host.
func fake(stderr bool) *program {
	find := func() (string, error) { return "/usr/bin/stress-ng", nil }
	p := &program{find: find, version: "stress-ng 1", stderr: stderr}
	p.once.Do(func() {})
	return p
}

func TestCommand(t *testing.T) {
	s := &stressor{name: "timer", options: map[string]option{"timer-freq": frequency, "timer-rand": toggle}}
	tests := []struct {
		stderr bool
		params workloads.Params
		want   string
	}{
		{false, workloads.Params{Duration: 3 * time.Second},
			"--timer 1 --timeout 3 --metrics --no-rand-seed --temp-path /tmp --verbose --yaml /proc/self/fd/1"},
		{true, workloads.Params{Duration: time.Minute, Args: map[string]string{"instances": "4", "timer-freq": "20000",
			"timer-rand": "true"}}, "--timer 4 --timer-freq 20000 --timer-rand --timeout 60 --metrics --no-rand-seed " +
			"--temp-path /tmp --verbose --yaml /proc/self/fd/1 --stderr"},
		{false, workloads.Params{Duration: time.Second, Args: map[string]string{"timer-rand": "false"}},
			"--timer 1 --timeout 1 --metrics --no-rand-seed --temp-path /tmp --verbose --yaml /proc/self/fd/1"},
	}
	for _, tt := range tests {
		s.program = fake(tt.stderr)
		cmd, err := s.Command(tt.params)
		if err != nil {
			t.Errorf("%+v: %v", tt.params, err)
			continue
		}
		if diff := cmp.Diff("/usr/bin/stress-ng "+tt.want, strings.Join(cmd.Argv, " ")); diff != "" {
			t.Error(diff)
		}
		if cmd.Timeout < tt.params.Duration+time.Minute {
			t.Errorf("timeout %v for %v", cmd.Timeout, tt.params.Duration)
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	s := &stressor{name: "timer", program: fake(false),
		options: map[string]option{"timer-freq": frequency, "timer-rand": toggle}}
	tests := []struct {
		duration time.Duration
		args     map[string]string
		want     string
	}{
		{0, nil, "whole seconds"},
		{1500 * time.Millisecond, nil, "1.5s: stress-ng takes whole seconds"},
		{time.Second, map[string]string{"timerfd-freq": "1"}, "known: timer-freq, timer-rand, instances"},
		{time.Second, map[string]string{"timer-freq": "20k"}, "from 1 to 100000000"},
		{time.Second, map[string]string{"timer-freq": "0"}, "from 1 to 100000000"},
		{time.Second, map[string]string{"timer-freq": "1000000000"}, "from 1 to 100000000"},
		{time.Second, map[string]string{"timer-freq": "-1"}, "from 1 to 100000000"},
		{time.Second, map[string]string{"timer-rand": ""}, "neither true nor false"},
		{time.Second, map[string]string{"instances": "0"}, "from 1 to 1024"},
	}
	for _, tt := range tests {
		_, err := s.Command(workloads.Params{Duration: tt.duration, Args: tt.args})
		if err == nil || blame.Of(err) != blame.User || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v %v: %v, want %q", tt.duration, tt.args, err, tt.want)
		}
	}
}

func TestParseList(t *testing.T) {
	got, err := parseList([]byte("\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n" +
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"))
	if want := []string{"/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	_, err = parseList([]byte("\tlibJudy.so.1 => not found\n"))
	if err == nil || !strings.Contains(err.Error(), "libJudy.so.1") {
		t.Errorf("missing library: %v", err)
	}
}

func needStressNG(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("stress-ng"); err != nil {
		t.Skip("stress-ng is not installed")
	}
}

// TestRun runs each stressor of the host's stress-ng for a second, with its
// output in files as in the guest.
func TestRun(t *testing.T) {
	needStressNG(t)
	for _, name := range workloads.Names() {
		t.Run(name, func(t *testing.T) {
			w, err := workloads.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			cmd, err := w.Command(workloads.Params{Duration: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			stdout, err := os.Create(filepath.Join(dir, "stdout"))
			if err != nil {
				t.Fatal(err)
			}
			defer stdout.Close()
			stderr, err := os.Create(filepath.Join(dir, "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			run := exec.CommandContext(t.Context(), cmd.Argv[0], cmd.Argv[1:]...)
			run.Stdout, run.Stderr = stdout, stderr
			if err := run.Run(); err != nil {
				t.Fatal(err)
			}
			out := workloads.Output{Stdout: content(t, stdout), Stderr: content(t, stderr)}
			s, err := w.Parse(out)
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, out.Stdout, out.Stderr)
			}
			if version, err := w.Version(); err != nil || version != s.Version {
				t.Errorf("version %q, %v; the run says %q", version, err, s.Version)
			}
			for i, m := range s.Metrics {
				if m.Name != w.Metrics()[i] {
					t.Errorf("metric %d is %s, want %s", i, m.Name, w.Metrics()[i])
				}
			}
		})
	}
}

func content(t *testing.T, f *os.File) []byte {
	t.Helper()
	data, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestFiles starts stress-ng in a root directory that holds nothing but its
// files.
func TestFiles(t *testing.T) {
	needStressNG(t)
	if os.Getuid() != 0 {
		t.Skip("chroot(2) needs root")
	}
	w, err := workloads.Lookup("stress-ng/timer")
	if err != nil {
		t.Fatal(err)
	}
	files, err := w.Files()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f.Path] {
			t.Errorf("%s is listed twice", f.Path)
		}
		seen[f.Path] = true
		install(t, filepath.Join(root, f.Path), f)
	}
	cmd, err := w.Command(workloads.Params{Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	version := exec.CommandContext(t.Context(), cmd.Argv[0], "--version")
	version.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	version.Dir, version.Env = "/", []string{}
	out, err := version.CombinedOutput()
	if err != nil || !versionLine.Match(out) {
		t.Errorf("%v: %s", err, out)
	}
}

func install(t *testing.T, path string, f workloads.File) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(f.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, os.FileMode(f.Mode))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMissing names the package when there is no stress-ng.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p := &program{find: installed.find}
	_, err := p.files()
	if err == nil || blame.Of(err) != blame.User || !strings.Contains(err.Error(), "package stress-ng") {
		t.Error(err)
	}
	if err := p.query(); blame.Of(err) != blame.User {
		t.Error(err)
	}
}
