package stressng

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bisectd/blame"
	"bisectd/workloads"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// recordings returns the names of testdata/VERSION-STRESSOR.yaml, without the
// suffix: runs of two instances for one second by real programs.
func recordings(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(p, ".yaml")
	}
	return paths
}

func recorded(t testing.TB, name string) workloads.Output {
	t.Helper()
	yaml, err := os.ReadFile(name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(name + ".log")
	if err != nil {
		t.Fatal(err)
	}
	return workloads.Output{Stdout: yaml, Stderr: log}
}

func lookup(t testing.TB, recording string) workloads.Workload {
	t.Helper()
	_, name, _ := strings.Cut(filepath.Base(recording), "-")
	w, err := workloads.Lookup("stress-ng/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestParseRecordings(t *testing.T) {
	for _, name := range recordings(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			sample, err := lookup(t, name).Parse(recorded(t, name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(sample, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := name + ".golden"
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestParseInterleaved reads YAML and log from one stream, as a terminal or a
// pipe shows them.
func TestParseInterleaved(t *testing.T) {
	name := "testdata/0.22.01-timer"
	apart := recorded(t, name)
	head, tail, _ := bytes.Cut(apart.Stderr, []byte("stress-ng: metrc"))
	mixed := workloads.Output{Stdout: bytes.Join([][]byte{head, apart.Stdout, []byte("stress-ng: metrc"), tail}, nil)}
	want, err := lookup(t, name).Parse(apart)
	if err != nil {
		t.Fatal(err)
	}
	got, err := lookup(t, name).Parse(mixed)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// TestParseUnsound changes a good recording into runs that must not count.
func TestParseUnsound(t *testing.T) {
	tests := []struct {
		name, old, new, want string
		exit                 int
	}{
		{name: "exit status", exit: 2, want: "exit status 2"},
		{"failed", "failed: 0", "failed: 1", "failed: 1", 0},
		{"skipped", "skipped: 0", "skipped: 2", "skipped: 2", 0},
		{"untrustworthy", "untrustworthy: 0", "untrustworthy: 1", "metrics untrustworthy: 1", 0},
		{"not completed", " successful run", " unsuccessful run", "did not report a successful end", 0},
		{"instance lost", "passed: 2", "passed: 1", "1 of 2 instances passed", 0},
		{"failure line", "info:  ", "fail:  ", "setting to a 1 sec", 0},
		{"old warning", "metrics-check: all", "WARNING: metrics are untrustworthy, all", "untrustworthy", 0},
		{"other stressor", "- stressor: timer", "- stressor: timerfd", "0 reports of stressor timer", 0},
		{"twice", "      max-rss:", "    - stressor: timer\n      max-rss:", "2 reports of stressor timer", 0},
		{"no number", "      bogo-ops: ", "      bogo-ops: x", "not a number", 0},
		{"infinite", "bogo-ops-per-second-real-time: ", "bogo-ops-per-second-real-time: inf #", "not a number", 0},
		{"negative", "bogo-ops-per-second-real-time: ", "bogo-ops-per-second-real-time: -", "not a number", 0},
		{name: "no operation", want: "no operation"},
		{name: "cut", want: "0 reports"},
	}
	name := "testdata/0.22.01-timer"
	good := recorded(t, name)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := workloads.Output{Exit: tt.exit, Stdout: good.Stdout, Stderr: good.Stderr}
			switch tt.name {
			case "cut":
				out.Stdout, _, _ = bytes.Cut(out.Stdout, []byte("metrics:"))
			case "no operation":
				out.Stdout = replaceValue(out.Stdout, "      bogo-ops-per-second-real-time: ", "0.000000")
			default:
				out.Stdout = bytes.Replace(out.Stdout, []byte(tt.old), []byte(tt.new), 1)
				out.Stderr = bytes.Replace(out.Stderr, []byte(tt.old), []byte(tt.new), 1)
			}
			_, err := lookup(t, name).Parse(out)
			if err == nil || blame.Of(err) != blame.Workload || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// replaceValue replaces what follows the first prefix in its line.
func replaceValue(text []byte, prefix, value string) []byte {
	before, after, _ := bytes.Cut(text, []byte(prefix))
	_, rest, _ := bytes.Cut(after, []byte("\n"))
	return bytes.Join([][]byte{before, []byte(prefix + value + "\n"), rest}, nil)
}

func FuzzParse(f *testing.F) {
	for _, name := range recordings(f) {
		out := recorded(f, name)
		f.Add(append(out.Stdout, out.Stderr...))
	}
	w := lookup(f, "0.22.01-timer")
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := w.Parse(workloads.Output{Stdout: data})
		if err == nil && (len(s.Metrics) == 0 || s.Metrics[0].Value <= 0) {
			t.Errorf("sample without its primary metric: %+v", s)
		}
	})
}
