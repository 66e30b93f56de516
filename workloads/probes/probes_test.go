package probes

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bisectd/blame"
	"bisectd/workloads"
)

// compile builds the program with the command of the go:generate line into a
// temporary directory. A fault is a file of testdata/faults that stands
// between the program and the wrapped functions of libc.
func compile(t *testing.T, fault string, wrapped ...string) string {
	t.Helper()
	source, err := os.ReadFile("probes.go")
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut(string(source), "//go:generate ")
	if !ok {
		t.Fatal("probes.go has no go:generate line")
	}
	line, _, _ = strings.Cut(line, "\n")
	exe := filepath.Join(t.TempDir(), "timerprobe")
	argv := strings.Fields(strings.Replace(line, "bin/timerprobe", exe, 1))
	if fault != "" {
		argv = append(argv, "testdata/faults/"+fault)
	}
	for _, name := range wrapped {
		argv = append(argv, "-Wl,--wrap="+name)
	}
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return exe
}

// run executes the program and returns its standard output.
func run(t *testing.T, exe string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return out
}

func semantics(t *testing.T, exe string) workloads.ProbeRecord {
	t.Helper()
	out := run(t, exe, "--mode=semantics")
	record, err := Parse(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return record
}

// dropsStale tells whether the running kernel is 6.13 or newer.
func dropsStale(t *testing.T) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release := strings.FieldsFunc(unix.ByteSliceToString(u.Release[:]), func(r rune) bool { return r < '0' || r > '9' })
	major, minor := release[0], release[1]
	return len(major) > 1 || major > "6" || major == "6" && len(minor) > 1 && minor >= "13"
}

// TestHost runs the probe on this host's kernel, which is taken for healthy.
func TestHost(t *testing.T) {
	record := semantics(t, compile(t, ""))
	names := 0
	for _, v := range record.Invariants {
		names++
		if v.Result != workloads.Pass {
			t.Errorf("%s: %s: %g %s, bound %g (%s)", v.Name, v.Result, v.Value, v.Unit, v.Bound, v.Detail)
		}
	}
	for _, m := range record.Markers {
		names++
		if !m.Measured || !m.Clear || m.Seen == dropsStale(t) {
			t.Errorf("%+v", m)
		}
	}
	if names != len(meanings) {
		t.Errorf("the record has %d names, names.go explains %d", names, len(meanings))
	}
}

// TestFaults shows that the checks can fail: behind each fault exactly the
// named checks say so.
func TestFaults(t *testing.T) {
	unmeasured := []string{PendingDelivered, OneshotOnce, PeriodicTicks, IgnoredResumes}
	for _, name := range []string{"posix-timer", "posix-timer-realtime", "timerfd", "timerfd-realtime"} {
		unmeasured = append(unmeasured, InterfaceLate(name), InterfaceEarly(name))
	}
	tests := []struct {
		fault   string
		wrapped []string
		result  workloads.Result
		want    []string
		markers func(workloads.Marker) bool
	}{
		{"grid.c", []string{"nanosleep"}, workloads.Fail, []string{"nanosleep-late", NanosleepGrid}, nil},
		{"early.c", []string{"clock_nanosleep", "timer_getoverrun"}, workloads.Fail,
			[]string{"clock-nanosleep-abs-tai-early", OneshotOnce, PeriodicTicks}, nil},
		{"nosys.c", []string{"timer_create", "timerfd_create"}, workloads.NotMeasured, unmeasured,
			func(m workloads.Marker) bool { return !m.Measured && m.Detail == "Function not implemented" }},
		{"stale.c", []string{"timer_settime"}, workloads.Fail, nil,
			func(m workloads.Marker) bool {
				return m.Name == StaleDelete || m.Seen && m.Clear && m.Detail == "20/20"
			}},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			record := semantics(t, compile(t, tt.fault, tt.wrapped...))
			var got []string
			for _, v := range record.Invariants {
				if v.Result == tt.result {
					got = append(got, v.Name)
				}
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: %q, want %q", tt.result, got, tt.want)
			}
			for _, m := range record.Markers {
				if tt.markers != nil && !tt.markers(m) {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

// TestWorkloads runs the three workloads on this host, by the command line
// that the guest would get.
func TestWorkloads(t *testing.T) {
	exe := compile(t, "")
	for _, mode := range []string{"sleep", "arm", "periodic"} {
		t.Run(mode, func(t *testing.T) {
			w, err := workloads.Lookup("probes/" + mode)
			if err != nil {
				t.Fatal(err)
			}
			cmd, err := w.Command(workloads.Params{Duration: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			out := run(t, exe, cmd.Argv[1:]...)
			s, err := w.Parse(workloads.Output{Stdout: out, Wall: time.Second})
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if s.Ops <= 0 || s.Wall != time.Second {
				t.Errorf("ops %g, wall %v", s.Ops, s.Wall)
			}
			for _, name := range w.Metrics() {
				if m, ok := s.Metric(name); !ok || m.Unit == "" || m.Better == "" {
					t.Errorf("metric %s: %+v, %v", name, m, ok)
				}
			}
		})
	}
}

// TestBinary holds in a fresh clone as well as after go generate.
func TestBinary(t *testing.T) {
	data, err := Binary()
	if err != nil {
		if !strings.Contains(err.Error(), "go generate ./workloads/probes") || blame.Of(err) != blame.Infrastructure {
			t.Error(err)
		}
		return
	}
	files, err := Files()
	if err != nil || len(files) != 1 || files[0].Path != Command().Argv[0] || len(files[0].Data) != len(data) {
		t.Errorf("files %d, %v", len(files), err)
	}
	if v, err := Version(); err != nil || len(v) != len("timerprobe 0123456789ab") {
		t.Errorf("version %q, %v", v, err)
	}
}

func TestCommandRefuses(t *testing.T) {
	w, err := workloads.Lookup("probes/sleep")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []workloads.Params{
		{},
		{Duration: time.Millisecond},
		{Duration: 2 * time.Hour},
		{Duration: time.Second, Args: map[string]string{"seconds": "3"}},
	} {
		if _, err := w.Command(p); blame.Of(err) != blame.User || err == nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]string{
		"empty":          ``,
		"cut":            `{"mode":"semantics","markers":[`,
		"other mode":     `{"mode":"sleep","markers":[],"invariants":[]}`,
		"nothing in it":  `{"mode":"semantics","markers":[],"invariants":[]}`,
		"unknown name":   record(`"stale"`, `"nanosleep-late"`, "pass"),
		"repeated name":  record(`"stale-signal-after-rearm"`, `"stale-signal-after-rearm"`, "pass"),
		"unknown result": record(`"stale-signal-after-rearm"`, `"nanosleep-late"`, "fine"),
		"two records": record(`"stale-signal-after-rearm"`, `"nanosleep-late"`, "pass") +
			record(`"stale-signal-after-rearm"`, `"nanosleep-late"`, "pass"),
	}
	for name, text := range tests {
		if _, err := Parse([]byte(text)); err == nil || blame.Of(err) != blame.Workload {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse([]byte(record(`"stale-signal-after-rearm"`, `"nanosleep-late"`, "pass"))); err != nil {
		t.Error(err)
	}
}

func record(marker, invariant, result string) string {
	return `{"mode":"semantics","elapsed_ns":1,"markers":[{"name":` + marker + `,"measured":true,"seen":true,` +
		`"clear":true,"detail":"20/20"}],"invariants":[{"name":` + invariant + `,"result":"` + result +
		`","value":1,"bound":2,"unit":"ns","detail":""}]}` + "\n"
}

func TestParseWorkloadRefuses(t *testing.T) {
	w, err := workloads.Lookup("probes/arm")
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []workloads.Output{
		{Exit: 1, Stderr: []byte("timerprobe: neither POSIX timers nor timerfd can be armed\n")},
		{Stdout: []byte(`{"mode":"sleep","ops":1,"values":{"arm_disarm_ns":1}}`)},
		{Stdout: []byte(`{"mode":"arm","ops":0,"values":{"arm_disarm_ns":1}}`)},
	} {
		if _, err := w.Parse(out); err == nil || blame.Of(err) != blame.Workload {
			t.Errorf("%s%s: %v", out.Stdout, out.Stderr, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(record(`"stale-signal-after-rearm"`, `"nanosleep-late"`, "pass")))
	f.Add([]byte(`{"mode":"semantics"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err == nil && (len(r.Markers) == 0 || len(r.Invariants) == 0) {
			t.Errorf("accepted an empty record: %q", data)
		}
	})
}
