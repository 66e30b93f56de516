package kbuild

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// specVariable makes the test binary build a kernel and exit: a bisectd to be
// killed.
const specVariable = "KBUILD_TEST_SPEC"

func TestMain(m *testing.M) {
	if text := os.Getenv(specVariable); text != "" {
		if err := buildAsChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type childSpec struct {
	Spec
	Repo, CacheDir string
}

func buildAsChild(text string) error {
	var c childSpec
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	tree, err := New(context.Background(), Options{Repo: c.Repo, CacheDir: c.CacheDir, Jobs: 2,
		Fragments: os.DirFS("testdata/fragments"),
		Progress:  func(done, _ int) { fmt.Println(done) }})
	if err != nil {
		return err
	}
	_, err = tree.Build(context.Background(), c.Spec)
	return err
}

// hang makes every link wait, deaf to SIGTERM, until release is called.
func hang(t *testing.T, tree *Tree) (release func()) {
	t.Helper()
	path := filepath.Join(tree.options.CacheDir, "hang")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	release = func() { os.Remove(path) }
	t.Cleanup(release)
	return release
}

func TestCancel(t *testing.T) {
	r := newRepo(t)
	tree := newTree(t, r, nil)
	release := hang(t, tree)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		waitFor(t, func() bool { return strings.Contains(running(t, tree), "trap") })
	}()
	spec := r.head()
	if _, err := tree.Build(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// Nobody is left that holds the lock, and the mark stands.
	held, err := lock(context.Background(), filepath.Join(tree.slot, "lock"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	if _, err := os.Stat(objectDirs(t, tree)[0].marker()); err != nil {
		t.Error(err)
	}
	release()
	if k := mustBuild(t, tree, spec); k.Objects != 3 {
		t.Errorf("compiled %d objects, want all 3: none can be trusted", k.Objects)
	}
}

// TestKilled kills a bisectd in the middle of a build. What it started is deaf
// to SIGTERM and goes on; the next one has to wait for it.
func TestKilled(t *testing.T) {
	r := newRepo(t)
	spec := r.head()
	tree := newTree(t, r, func(o *Options) { o.LockWait = 200 * time.Millisecond })
	release := hang(t, tree)
	text, err := json.Marshal(childSpec{spec, r.dir, tree.options.CacheDir})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), specVariable+"="+string(text))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "3"; {
	}
	// All objects are made; the link comes next.
	waitFor(t, func() bool { return strings.Contains(running(t, tree), "trap") })
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()

	_, err = tree.Build(context.Background(), spec)
	want := fmt.Sprintf("what process %d left running when it ended", child.Process.Pid)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %s", err, want)
	}
	release()
	tree.options.LockWait = 20 * time.Second
	if k := mustBuild(t, tree, spec); k.Objects != 3 {
		t.Errorf("compiled %d objects, want all 3: none can be trusted", k.Objects)
	}
}

// running returns the command lines of the processes that have the lock open.
func running(t *testing.T, tree *Tree) string {
	t.Helper()
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == filepath.Join(tree.slot, "lock") {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(fd)), "cmdline"))
			all.WriteString(strings.ReplaceAll(string(line), "\x00", " ") + "\n")
		}
	}
	return all.String()
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("waited 30 s in vain")
			return
		}
	}
}

func TestPowerLoss(t *testing.T) {
	r := newRepo(t)
	tree := newTree(t, r, nil)
	mustBuild(t, tree, r.head())
	o := objectDirs(t, tree)[0]
	if _, err := os.Stat(o.marker()); err == nil {
		t.Error("the mark is still there after a good build")
	}
	if err := os.WriteFile(o.marker(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	k := mustBuild(t, tree, r.commit("kernel/timer.c", "1000", "1001"))
	if k.Objects != 3 {
		t.Errorf("compiled %d objects, want all 3", k.Objects)
	}
}

func TestObjectsFromTheFuture(t *testing.T) {
	r := newRepo(t)
	tree := newTree(t, r, nil)
	mustBuild(t, tree, r.head())
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(objectDirs(t, tree)[0].statePath(), future, future); err != nil {
		t.Fatal(err)
	}
	if k := mustBuild(t, tree, r.commit("kernel/timer.c", "1000", "1001")); k.Objects != 3 {
		t.Errorf("compiled %d objects, want all 3", k.Objects)
	}
}

func TestTwoBuildersWaitForEachOther(t *testing.T) {
	r := newRepo(t)
	spec := r.head()
	kernels := make(chan Kernel, 2)
	for range 2 {
		tree := newTree(t, r, nil)
		go func() {
			k, err := tree.Build(context.Background(), spec)
			if err != nil {
				t.Error(err)
			}
			kernels <- k
		}()
	}
	a, b := <-kernels, <-kernels
	if a.Reused == b.Reused || a.Image != b.Image {
		t.Errorf("one should have built, one found: %v, %v", a.Reused, b.Reused)
	}
}
