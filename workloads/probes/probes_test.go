package probes

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
		if m.Name != IgnoredKept && m.Seen == dropsStale(t) || m.Name == IgnoredKept && m.Seen != dropsStale(t) {
			t.Errorf("another kernel's: %+v", m)
		}
		if !m.Measured || !m.Clear {
			t.Errorf("%+v", m)
		}
	}
	if names != len(meanings) {
		t.Errorf("the record has %d names, names.go explains %d", names, len(meanings))
	}
}

// TestOnly asks for some checks by name.
func TestOnly(t *testing.T) {
	exe := compile(t, "")
	for _, tt := range []struct{ only, want []string }{
		{[]string{StaleRearm}, []string{StaleRearm, PendingDelivered}},
		{[]string{InterfaceEarly("timerfd"), RoundtripKept},
			[]string{InterfaceLate("timerfd"), InterfaceEarly("timerfd"), RoundtripLate, RoundtripStall, RoundtripKept}},
		{[]string{NanosleepGrid}, []string{InterfaceLate("nanosleep"), InterfaceEarly("nanosleep"), NanosleepGrid}},
		{[]string{IgnoredKept, OneshotOnce}, []string{IgnoredKept, OneshotOnce}},
	} {
		out := run(t, exe, Command(tt.only...).Argv[1:]...)
		r, err := Parse(out)
		if err != nil {
			t.Fatalf("%q: %v\n%s", tt.only, err, out)
		}
		var got []string
		for _, m := range r.Markers {
			got = append(got, m.Name)
		}
		for _, v := range r.Invariants {
			got = append(got, v.Name)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, want %q", tt.only, got, tt.want)
		}
	}
	if err := exec.Command(exe, Command("timerfd").Argv[1:]...).Run(); err == nil {
		t.Error("there is no check of the name timerfd")
	}
}

// TestHistogram holds each histogram to the number of samples behind it.
func TestHistogram(t *testing.T) {
	exe := compile(t, "")
	r, err := Parse(run(t, exe, Command(InterfaceLate("nanosleep"), RoundtripLate, OneshotOnce).Argv[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{InterfaceLate("nanosleep"): 30, RoundtripLate: 200}
	for _, v := range r.Invariants {
		sum := 0
		for i, n := range v.Histogram {
			sum += n
			if n > 0 && i < 6 {
				t.Errorf("%s: below 64 ns: %d", v.Name, v.Histogram)
			}
		}
		if sum != counts[v.Name] {
			t.Errorf("%s: %d samples in %d", v.Name, sum, v.Histogram)
		}
	}
}

// TestFaults shows that the checks can fail: behind each fault exactly the
// named checks say so.
func TestFaults(t *testing.T) {
	unmeasured := []string{PendingDelivered, OneshotOnce, TimerIdentity, OverrunInHandler, PeriodicTicks, IgnoredResumes,
		RoundtripLate, RoundtripStall, RoundtripKept}
	for _, name := range []string{"posix-timer", "posix-timer-realtime", "timerfd", "timerfd-realtime", "mq-timedreceive"} {
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
			[]string{"clock-nanosleep-abs-tai-early", OneshotOnce, OverrunInHandler, PeriodicTicks}, nil},
		{"identity.c", []string{"sigtimedwait"}, workloads.Fail, []string{TimerIdentity}, nil},
		{"slowmq.c", []string{"mq_timedsend", "fopen"}, workloads.Fail, []string{RoundtripLate, RoundtripStall, RoundtripKept}, nil},
		{"busymq.c", []string{"mq_timedsend", "fopen"}, workloads.NotMeasured, []string{RoundtripLate, RoundtripStall}, nil},
		{"nosys.c", []string{"timer_create", "timerfd_create", "mq_open"}, workloads.NotMeasured, unmeasured,
			func(m workloads.Marker) bool { return !m.Measured && m.Detail == "Function not implemented" }},
		{"stale.c", []string{"timer_settime"}, workloads.Fail, nil,
			func(m workloads.Marker) bool {
				return m.Name == StaleDelete || m.Name == IgnoredKept || m.Seen && m.Clear && m.Detail == "20/20"
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

// TestWorkloads runs the workloads on this host, by the command line
// that the guest would get.
func TestWorkloads(t *testing.T) {
	exe := compile(t, "")
	for _, mode := range []string{"sleep", "arm", "periodic", "mq"} {
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

// TestPeriodicFrequency holds the periodic timer to the frequency of the job,
// however fast: a healthy kernel accounts for every tick.
func TestPeriodicFrequency(t *testing.T) {
	exe := compile(t, "")
	w, err := workloads.Lookup("probes/periodic")
	if err != nil {
		t.Fatal(err)
	}
	for _, hz := range []string{"100", "20000", "1000000"} {
		cmd, err := w.Command(workloads.Params{Duration: 500 * time.Millisecond, Args: map[string]string{"timer-freq": hz}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.Parse(workloads.Output{Stdout: run(t, exe, cmd.Argv[1:]...), Wall: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := strconv.ParseFloat(hz, 64)
		ticks, _ := s.Metric("ticks_per_s")
		signals, _ := s.Metric("signals_per_s")
		overruns, _ := s.Metric("overruns_per_s")
		perCPU, ok := s.Metric("ticks_per_cpu_s")
		// One tick may be missing at either end of half a second.
		if math.Abs(ticks.Value-want) > 4+want/1e4 || math.Abs(signals.Value+overruns.Value-ticks.Value) > 0.001 {
			t.Errorf("%s Hz: %g ticks/s from %g signals/s and %g overruns/s", hz, ticks.Value, signals.Value, overruns.Value)
		}
		// A processor cannot be used for more than the time that passes, but the
		// kernel counts both by clocks of their own.
		if !ok || perCPU.Value < 0.9*ticks.Value {
			t.Errorf("%s Hz: %g ticks/cpu-s", hz, perCPU.Value)
		}
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
	for _, tt := range []struct {
		name string
		p    workloads.Params
	}{
		{"probes/sleep", workloads.Params{}},
		{"probes/sleep", workloads.Params{Duration: time.Millisecond}},
		{"probes/sleep", workloads.Params{Duration: 2 * time.Hour}},
		{"probes/sleep", workloads.Params{Duration: time.Second, Args: map[string]string{"seconds": "3"}}},
		{"probes/sleep", workloads.Params{Duration: time.Second, Args: map[string]string{"timer-freq": "3"}}},
		{"probes/periodic", workloads.Params{Duration: time.Second, Args: map[string]string{"timer-rand": "true"}}},
		{"probes/periodic", workloads.Params{Duration: time.Second, Args: map[string]string{"timer-freq": "20k"}}},
		{"probes/periodic", workloads.Params{Duration: time.Second, Args: map[string]string{"timer-freq": "0"}}},
		{"probes/periodic", workloads.Params{Duration: time.Second, Args: map[string]string{"timer-freq": "100000001"}}},
	} {
		w, err := workloads.Lookup(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Command(tt.p); blame.Of(err) != blame.User || err == nil {
			t.Errorf("%s %+v: %v", tt.name, tt.p, err)
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
		"negative count": withHistogram("-1"),
		"many buckets":   withHistogram("0" + strings.Repeat(",0", buckets)),
		"no counts":      withHistogram(`"1"`),
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
	r, err := Parse([]byte(withHistogram("0,3,4")))
	if err != nil || !slices.Equal(r.Invariants[0].Histogram, []int{0, 3, 4}) {
		t.Errorf("%+v, %v", r, err)
	}
}

func withHistogram(counts string) string {
	return strings.Replace(record(`"stale-signal-after-rearm"`, `"nanosleep-late"`, "pass"),
		`"detail":""`, `"detail":"","histogram":[`+counts+`]`, 1)
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
	f.Add([]byte(withHistogram("1,2,3")))
	f.Add([]byte(`{"mode":"semantics","markers":[],"invariants":[{"name":"mq-roundtrip-kept","result":"not-measured"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err == nil && len(r.Markers)+len(r.Invariants) == 0 {
			t.Errorf("accepted an empty record: %q", data)
		}
		for _, v := range r.Invariants {
			if len(v.Histogram) > buckets || Meaning(v.Name) == "" {
				t.Errorf("accepted %+v", v)
			}
		}
	})
}
