//go:build e2e

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"bisectd/bisect"
	"bisectd/bisect/journal"
	"bisectd/cmd/bisectd/internal/demo"
)

// program returns the bisectd that `make build` made.
func program(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/bisectd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run 'make build' first", err)
	}
	return path
}

// TestDemo finds the three planted changes twice: the second time every
// kernel has to come from the store.
func TestDemo(t *testing.T) {
	for _, pass := range []string{"first", "again"} {
		start := time.Now()
		cmd := exec.Command(program(t), "demo", "--format", "json")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var answers []demoAnswer
		if jsonErr := json.Unmarshal(out, &answers); jsonErr != nil {
			t.Fatalf("%s: %v: %v\n%s", pass, err, jsonErr, out)
		}
		var builds, reused, boots int
		for _, a := range answers {
			t.Logf("%s: %-20s planted %s %.12s, found %s %.12s, per vCPU count %v: %d builds, %d reused, %d boots, %.0f s",
				pass, a.Job, a.Planted.Class, a.Planted.Commit, a.Found.Class, a.Found.Commit, a.Classes, a.Builds, a.Reused, a.Boots, a.Seconds)
			if !a.Right {
				t.Errorf("%s: %s: found %+v at %v, planted %+v", pass, a.Job, a.Found, a.Classes, a.Planted)
			}
			builds, reused, boots = builds+a.Builds, reused+a.Reused, boots+a.Boots
		}
		t.Logf("%s: total: %d builds, %d reused, %d boots, %v", pass, builds, reused, boots, time.Since(start).Round(time.Second))
		if err != nil || len(answers) != 3 {
			t.Errorf("%s: %d answers, exit: %v", pass, len(answers), err)
		}
		if pass == "again" && reused == 0 {
			t.Errorf("again: no kernel came from the store")
		}
	}
}

// TestResumeAfterKill kills a run at three points of its life with SIGKILL.
// The same command must then come to the same answer, without repeating any
// build or boot that had finished, and no guest may survive its bisectd.
func TestResumeAfterKill(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	file, planted := demoJob(t, "half-second-sleeps", dir)
	state := filepath.Join(dir, "state")
	command := func() *exec.Cmd { return exec.Command(bin, "--state", state, "run", "--format", "json", file) }
	for _, moment := range []string{", metric: completed", ": testing ", ": confirming "} {
		killAt(t, command(), moment)
	}
	before := finished(t, state)
	if len(before) == 0 {
		t.Fatal("nothing was finished before the last kill")
	}

	cmd := command()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, _ := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != exitRegression {
		t.Fatalf("exit status %d, want %d\n%s", code, exitRegression, stderr.String())
	}
	var got bisect.Result
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.FirstNew == nil || got.FirstNew.ID != planted.Planted.ID || got.Class != planted.Class {
		t.Errorf("found %v as %s, want %s as %s", got.FirstNew, got.Class, planted.Planted.ID, planted.Class)
	}
	for work, ends := range finished(t, state) {
		if ends != 1 {
			t.Errorf("%s was finished %d times", work, ends)
		}
	}
	t.Logf("killed 3 times with %d builds and boots finished; %d at the end, none twice", len(before), len(finished(t, state)))
}

// TestGitBisectRun lets git walk, and bisectd judge each commit: without a work
// tree, as the demonstration's repository has none.
func TestGitBisectRun(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	file, planted := demoJob(t, "half-second-sleeps", dir)
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", planted.Repo, "bisect"}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git bisect %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("start", "--no-checkout", planted.Bad, planted.Good[0])
	defer git("reset")
	out := git("run", bin, "--state", filepath.Join(dir, "state"), "test", "BISECT_HEAD", "--job", file)
	if !strings.Contains(out, planted.Planted.ID+" is the first bad commit") {
		t.Errorf("git found another commit than %s:\n%s", planted.Planted.ID, out)
	}
	t.Log(out)
}

// demoJob writes one job of the demonstration as a job file of its own and
// returns its path.
func demoJob(t *testing.T, name, dir string) (string, demo.Job) {
	t.Helper()
	vars := defaults()
	paths := Paths{State: vars["state"], Cache: vars["cache"], MinFree: 1}
	jobs, err := (&demoCmd{Jobs: []string{name}}).prepare(t.Context(), &paths)
	if err != nil {
		t.Fatal(err)
	}
	job := jobs[0].Job
	job.Name = "killed"
	text, err := yaml.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return file, jobs[0]
}

// killAt runs cmd until a line of its standard error holds moment, lets it
// begin the next piece of work, and kills it.
func killAt(t *testing.T, cmd *exec.Cmd, moment string) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := false
	for lines := bufio.NewScanner(stderr); !seen && lines.Scan(); {
		seen = strings.Contains(lines.Text(), moment)
	}
	if !seen {
		t.Fatalf("the run ended before a line with %q: %v", moment, cmd.Wait())
	}
	guest := guestOf(cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); guest != 0 && alive(guest); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("killed at %q: QEMU %d is still there", moment, guest)
		}
	}
	t.Logf("killed at %q, with QEMU %d", moment, guest)
}

// guestOf waits for a QEMU among the children of pid; 0 if none comes within
// three seconds (a build may be under way).
func guestOf(pid int) int {
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		out, _ := exec.Command("pgrep", "-P", fmt.Sprint(pid), "qemu-system").Output()
		var guest int
		if _, err := fmt.Sscan(string(out), &guest); err == nil {
			return guest
		}
	}
	return 0
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// finished counts the end events of every build and boot in the journal, and
// fails if one that had ended was begun again.
func finished(t *testing.T, state string) map[string]int {
	t.Helper()
	store, err := journal.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	runs, err := store.Runs(t.Context())
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs in the journal: %v", len(runs), err)
	}
	events, err := store.Events(t.Context(), runs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]int{}
	for _, e := range events {
		work := e.Kind + " " + e.Key
		switch {
		case e.Kind != "build" && e.Kind != "boot":
		case e.Phase == journal.End:
			ends[work]++
		case ends[work] > 0:
			t.Errorf("%s was begun again after its end", work)
		}
	}
	return ends
}
