package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/bisect/journal"
	"bisectd/kbuild"
	"bisectd/workloads"
)

// golden compares got with testdata/name, or rewrites that.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// linear makes a repository with n commits on one branch, always the same.
func linear(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		for _, who := range []string{"AUTHOR", "COMMITTER"} {
			cmd.Env = append(cmd.Env, "GIT_"+who+"_NAME=test", "GIT_"+who+"_EMAIL=test@bisectd.invalid",
				"GIT_"+who+"_DATE=2026-01-02T03:04:05Z")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, "n"), fmt.Append(nil, i), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", "n")
		git("commit", "-q", "-m", fmt.Sprintf("change %d", i))
		git("tag", fmt.Sprintf("v%d", i))
	}
	return dir
}

// world is a Tester in which one commit makes the metric fall by a tenth. It
// writes what it observes as the runner does.
type world struct {
	run     *journal.Run
	commits *history.Range
	from    string // subject of the first slower commit
}

func (w *world) slower(c bisect.Commit) bool {
	var n, from int
	_, _ = fmt.Sscanf(c.Subject+" "+w.from, "change %d change %d", &n, &from)
	return n >= from
}

func (w *world) Observe(ctx context.Context, b bisect.Boot) (bisect.Observation, error) {
	value := 1000 + 2*float64(b.Ordinal%3)
	if w.slower(b.Commit) {
		value *= 0.9
	}
	o := bisect.Observation{Commit: b.Commit.ID, VCPUs: b.VCPUs, Profile: b.Profile, Ordinal: b.Ordinal,
		Ending: bisect.Completed, Kernel: bisect.Kernel{Signature: b.Commit.Tree},
		Fingerprint: bisect.Fingerprint{Clocksource: "tsc", HighRes: true, Resolution: 1, CPUs: b.VCPUs},
		Samples: []workloads.Sample{{Ops: 1000, Metrics: []workloads.Metric{
			{Name: "bogo_ops_per_s", Unit: "ops/s", Better: workloads.Higher, Value: value}}}}}
	if b.Profile == bisect.TraceBoot {
		o.Tally = &workloads.Tally{Callbacks: map[string]workloads.Lives{
			"hrtimer_wakeup": {Start: 1000, Expire: 1000, Timers: 1}}}
	}
	for _, step := range []error{
		w.run.Begin(ctx, "build", b.Commit.Tree, kbuild.Spec{Commit: b.Commit.ID, Tree: b.Commit.Tree}),
		w.run.End(ctx, "build", b.Commit.Tree, map[string]any{"kernel": kbuild.Kernel{Signature: b.Commit.Tree}}),
		w.run.End(ctx, "boot", fmt.Sprint(b), o),
	} {
		if step != nil {
			return o, step
		}
	}
	return o, nil
}

// finishedRun makes a run in a state directory, and returns its name.
func finishedRun(t *testing.T, state string) string {
	t.Helper()
	repo := linear(t, 9)
	job, err := bisect.ParseJob([]byte("name: told\nrepo: " + repo + "\ngood: [v0]\nbad: v8\n" +
		"machine: {accel: tcg}\nworkload: {name: stress-ng/clock}\n"))
	if err != nil {
		t.Fatal(err)
	}
	commits, err := history.Open(t.Context(), job.Repo, job.Good, job.Bad)
	if err != nil {
		t.Fatal(err)
	}
	store, err := journal.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run, err := store.Run(t.Context(), "told-1")
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	engine, err := newEngine(job, commits, &world{run, commits, "change 5"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := engine.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result.Run = run.ID()
	if err := run.Begin(t.Context(), resultEvent, "", pinned(job, commits)); err != nil {
		t.Fatal(err)
	}
	if err := run.End(t.Context(), resultEvent, "", result); err != nil {
		t.Fatal(err)
	}
	return run.ID()
}

// counts are the numbers of boots, and what is computed from them: how many
// the engine makes is its affair.
var counts = regexp.MustCompile(`(interval |, |: |boot )([-+.0-9]+ to [-+.0-9]+|\d+ of its \d+|\d+ and \d+|\d+)`)

func TestJudge(t *testing.T) {
	state := t.TempDir()
	id := finishedRun(t, state)
	tests := []struct {
		name   string
		args   []string
		status int
	}{
		{"same", nil, exitRegression},
		{"greater-effect", []string{"--min-effect=30%"}, exitDone},
		{"missing", []string{"--metric=bogo_ops_per_cpu_s"}, exitInconclusive},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := run(append([]string{"judge", "--state", state, id}, tt.args...), &out, &errs)
			if status != tt.status || errs.Len() > 0 {
				t.Errorf("status %d, want %d\n%s", status, tt.status, errs.String())
			}
			golden(t, "judge/"+tt.name+".golden", counts.ReplaceAllString(out.String(), "$1#"))
		})
	}
	var before, after bytes.Buffer
	for _, out := range []*bytes.Buffer{&before, &after} {
		if status := run([]string{"report", "--state", state, id}, out, os.Stderr); status != exitDone {
			t.Errorf("report: status %d", status)
		}
		run([]string{"judge", "--state", state, id, "--min-effect=30%"}, &bytes.Buffer{}, os.Stderr)
	}
	if before.String() != after.String() || !strings.Contains(before.String(), "Regression") {
		t.Errorf("the stored result changed from\n%s\nto\n%s", before.String(), after.String())
	}
}
