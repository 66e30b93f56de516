package bisect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"bisectd/bisect"
	_ "bisectd/workloads/probes" // registers probes/sleep
)

const jobFile = `name: sleepers
repo: linux
good: [v6.12]
bad: v6.13
machine: {vcpus: [2, 1], memory: 2G, accel: tcg}
workload: {name: probes/sleep, duration: 2s, runs: 5}
judge: {metric: sleep_late_p95_ns, min_effect: 7.5%, error: 1%}
`

func TestParseJob(t *testing.T) {
	got, err := bisect.ParseJob([]byte(jobFile))
	if err != nil {
		t.Fatal(err)
	}
	want := bisect.Job{
		Name: "sleepers", Repo: "linux", Good: []string{"v6.12"}, Bad: "v6.13",
		Kernel:   bisect.Build{Config: []string{"guest", "timers"}, Compiler: "gcc"},
		Machine:  bisect.Machine{VCPUs: []int{1, 2}, Memory: 2048, Accel: "tcg"},
		Workload: bisect.Work{Name: "probes/sleep", Duration: bisect.Duration(2 * time.Second), Runs: 5},
		Judge:    bisect.Rules{Metric: "sleep_late_p95_ns", MinEffect: 0.075, Error: 0.01},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseJob: -want +got\n%s", diff)
	}
}

func TestParseJobTellsWhere(t *testing.T) {
	tests := []struct{ from, to, want string }{
		{"repo: linux\n", "", "1:1: repo: missing"},
		{"good: [v6.12]", "good: []", "3:7: good: missing"},
		{"[2, 1]", "[2, 2]", "5:18: machine.vcpus: a count is listed twice"},
		{"2G", "2", `5:34: "2" is no size`},
		{"2G", "64M", "5:34: machine.memory: a guest needs at least 128M"},
		{"accel: tcg", "accel: xen", `5:45: machine.accel: "xen" is none of`},
		{"2s", "2", `6:42: "2" is no duration`},
		{"2s", "1ms", "6:42: "},
		{"runs: 5", "runs: 0", "6:52: workload.runs: goes from 1"},
		{"runs: 5", "run: 5", `6:46: unknown field "run"`},
		{"7.5%", "0.075", `7:48: "0.075" is no percentage`},
		{"7.5%", "0%", "7:48: judge.min_effect"},
	}
	for _, tt := range tests {
		_, err := bisect.ParseJob([]byte(strings.Replace(jobFile, tt.from, tt.to, 1)))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q for %q: error %v, want %q", tt.to, tt.from, err, tt.want)
		}
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add([]byte(jobFile))
	f.Add([]byte("a: [1, {b: c}]\n--- \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		job, err := bisect.ParseJob(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of more than one line: %q", err)
			}
			return
		}
		text, err := yaml.Marshal(job)
		if err != nil {
			t.Fatalf("a job that was read cannot be written: %v", err)
		}
		if _, err := bisect.ParseJob(text); err != nil {
			t.Errorf("a job that was written cannot be read: %v\n%s", err, text)
		}
	})
}
