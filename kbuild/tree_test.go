package kbuild

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bisectd/blame"
	"bisectd/kbuild/internal/proc"
)

// repo is a git repository with the tree in miniature of testdata/linux.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T) repo {
	t.Helper()
	r := repo{t, t.TempDir()}
	if err := os.CopyFS(r.dir, os.DirFS("testdata/linux")); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=master")
	return r
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(proc.Environment(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit replaces old by new in a file, where old is not empty, and commits.
func (r repo) commit(file, old, new string) Spec {
	r.t.Helper()
	path := filepath.Join(r.dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		r.t.Fatalf("%s does not contain %q", file, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return r.head()
}

func (r repo) head() Spec {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", "step")
	return Spec{
		Commit:    r.git("rev-parse", "HEAD"),
		Tree:      r.git("rev-parse", "HEAD^{tree}"),
		Fragments: []string{"guest", "timers"},
		Compiler:  "gcc",
	}
}

func newTree(t *testing.T, r repo, change func(*Options)) *Tree {
	t.Helper()
	o := Options{Repo: r.dir, CacheDir: filepath.Join(r.dir, ".git", "cache"), Jobs: 2,
		Fragments: os.DirFS("testdata/fragments"), LockWait: 20 * time.Second}
	if change != nil {
		change(&o)
	}
	tree, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func mustBuild(t *testing.T, tree *Tree, spec Spec) Kernel {
	t.Helper()
	k, err := tree.Build(context.Background(), spec)
	if err != nil {
		t.Fatalf("%v\n%s", err, read(t, k.Log))
	}
	return k
}

func read(t *testing.T, path string) string {
	t.Helper()
	if path == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBuild(t *testing.T) {
	r := newRepo(t)
	spec := r.head()
	tree := newTree(t, r, nil)
	k := mustBuild(t, tree, spec)

	if k.Reused || k.Objects != 3 || k.Release != "6.0.0-miniature" || k.Tree != spec.Tree || len(k.Signature) != 64 {
		t.Errorf("got %+v", k)
	}
	if len(k.Wanted) != 1 || k.Wanted[0] != "CONFIG_NICE_TO_HAVE" {
		t.Errorf("wanted %v", k.Wanted)
	}
	if !strings.Contains(k.Compiler, "gcc") {
		t.Errorf("compiler %q", k.Compiler)
	}
	config := read(t, k.Config)
	for _, line := range []string{"CONFIG_SMP=y", "CONFIG_HZ=250", "# CONFIG_LOCALVERSION_AUTO is not set"} {
		if !strings.Contains(config, line+"\n") {
			t.Errorf("%q is not in:\n%s", line, config)
		}
	}
	for _, path := range []string{k.Image, k.SystemMap, k.Log} {
		if read(t, path) == "" {
			t.Errorf("%s is empty", path)
		}
	}

	again := mustBuild(t, tree, spec)
	other := mustBuild(t, newTree(t, r, nil), spec) // another process, as it were
	again.Reused, other.Reused = !again.Reused, !other.Reused
	if !equal(again, k) || !equal(other, k) {
		t.Errorf("built %+v\nfound %+v\n  and %+v", k, again, other)
	}
}

func equal(a, b Kernel) bool {
	sameWanted := strings.Join(a.Wanted, " ") == strings.Join(b.Wanted, " ")
	a.Wanted, b.Wanted = nil, nil
	return sameWanted && a.Key == b.Key && a.Image == b.Image && a.Signature == b.Signature &&
		a.Elapsed == b.Elapsed && a.Objects == b.Objects && a.Reused == b.Reused && a.Log == b.Log
}

func TestOnlyWhatChangedIsCompiled(t *testing.T) {
	r := newRepo(t)
	first := r.head()
	second := r.commit("kernel/timer.c", "1000", "1001")
	tree := newTree(t, r, nil)
	a := mustBuild(t, tree, first)
	b := mustBuild(t, tree, second)
	if b.Objects != 1 {
		t.Errorf("compiled %d objects, want 1:\n%s", b.Objects, read(t, b.Log))
	}
	if a.Signature == b.Signature {
		t.Error("different kernels have the same signature")
	}
	if strings.Contains(read(t, b.Log), "olddefconfig") {
		t.Error("the configuration was made again, though nothing that decides it changed")
	}
}

func TestEqualKernelsHaveEqualSignatures(t *testing.T) {
	r := newRepo(t)
	tree := newTree(t, r, nil)
	a := mustBuild(t, tree, r.head())
	b := mustBuild(t, tree, r.commit("kernel/timer.c", "#include", "/* a comment */\n#include"))
	if a.Key == b.Key || b.Objects != 1 {
		t.Errorf("the second was not built: %+v", b)
	}
	if a.Signature != b.Signature {
		t.Error("a comment changed the signature")
	}
}

// TestSignatureCoversTheWholeImage changes what lies around vmlinux in a
// bzImage. The blob comes in through .incbin, unseen by ccache's depend mode:
// it must not be served from the cache.
func TestSignatureCoversTheWholeImage(t *testing.T) {
	r := newRepo(t)
	tree := newTree(t, r, nil)
	seen := map[string]string{}
	mustDiffer := func(name string, spec Spec) {
		k := mustBuild(t, tree, spec)
		if twin, ok := seen[k.Signature]; ok {
			t.Errorf("%s and %s have one signature", name, twin)
		}
		seen[k.Signature] = name
	}
	mustDiffer("first", r.head())
	mustDiffer("set-up code", r.commit("arch/x86/boot/setup", "code", "CODE"))
	mustDiffer("decompressor", r.commit("arch/x86/realmode/blob", "one", "two"))
}

func TestConfigDependsOnTreeAlone(t *testing.T) {
	r := newRepo(t)
	tree := newTree(t, r, nil)
	first := r.head()
	a := mustBuild(t, tree, first)
	b := mustBuild(t, tree, r.commit("Kconfig", "config SMP", "config NICE_TO_HAVE\n\tbool\nconfig SMP"))
	if b.Wanted != nil || b.Objects != 3 {
		t.Errorf("with the optional symbol: lacks %v, %d objects", b.Wanted, b.Objects)
	}
	c := mustBuild(t, tree, r.commit("Kconfig", "config NICE_TO_HAVE\n\tbool\n", ""))
	if c.Key != a.Key || !c.Reused {
		t.Error("the same tree was built twice")
	}
	d := mustBuild(t, tree, r.commit("kernel/timer.c", "1000", "1001"))
	if read(t, d.Config) != read(t, a.Config) {
		t.Error("the configuration depends on what was built before")
	}
}

func TestBlame(t *testing.T) {
	for _, test := range []struct {
		name, file, old, new string
		fragments            []string
		blame                blame.Blame
		want                 string
	}{
		{"compiler", "kernel/timer.c", "return", "retrun", nil, blame.Kernel,
			"build: kernel/timer.c:5:9: error: "},
		{"linker", "kernel/timer.c", "int timer(", "int tmier(", nil, blame.Kernel,
			"o: undefined reference to `timer'"},
		{"make", "Makefile", "include/linux.h", "include/gone.h", nil, blame.Kernel,
			"*** No rule to make target 'include/gone.h', needed by '"},
		{"disk full", "Makefile", "-o $@ $(CURDIR)", "-o /dev/full $(CURDIR)", nil, blame.Infrastructure,
			"No space left on device"},
		{"compiler killed", "Makefile", "@nm -n", "@kill -9 $$$$; nm -n", nil, blame.Infrastructure,
			"] Killed"},
		{"missing program", "Makefile", "@nm -n", "@no-such-nm -n", nil, blame.User,
			"no-such-nm: not found"},
		{"dropped", "Kconfig", "config SMP", "config XSMP", nil, blame.Kernel,
			"config: CONFIG_SMP asked y, got n (no such symbol at this commit)"},
		{"overruled", "scripts/kconfig/conf.awk", `END {`, `END { set["SMP"] = "n"`, nil, blame.Kernel,
			"config: CONFIG_SMP asked y, got n"},
		{"unknown fragment", "Makefile", "", "", []string{"nonesuch"}, blame.User,
			`no config fragment "nonesuch"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRepo(t)
			good := r.head()
			bad := r.commit(test.file, test.old, test.new)
			if test.fragments != nil {
				bad.Fragments = test.fragments
			}
			tree := newTree(t, r, nil)
			mustBuild(t, tree, good)
			k, err := tree.Build(context.Background(), bad)
			if err == nil || !strings.Contains(err.Error(), test.want) || blame.Of(err) != test.blame {
				t.Fatalf("got %v (%v), want %q (%v)\n%s", err, blame.Of(err), test.want, test.blame, read(t, k.Log))
			}
			if test.blame == blame.Kernel && !strings.Contains(read(t, k.Log), bad.Commit) {
				t.Errorf("no log of the failure in %q", k.Log)
			}
			if after := mustBuild(t, tree, good); !after.Reused {
				t.Error("the good kernel is no longer in the store")
			}
		})
	}
}

// TestStaleObjects has a Makefile that does not know that objects depend on a
// header, as real ones at times do not.
func TestStaleObjects(t *testing.T) {
	const retried = "trying once more from scratch"
	r := newRepo(t)
	r.commit("Makefile", "%.c include/linux.h", "%.c")
	r.commit("include/linux.h", "int timer(int hz);", "#define TICK timer\nint TICK(int hz);")
	r.commit("kernel/timer.c", "int timer(", "int TICK(")
	good := r.commit("kernel/main.c", "return timer(", "return TICK(")
	r.commit("include/linux.h", "TICK timer", "TICK clock")
	stale := r.commit("kernel/timer.c", "1000", "1001")
	bad := r.commit("kernel/timer.c", "return", "retrun")

	tree := newTree(t, r, nil)
	mustBuild(t, tree, good)
	k, err := tree.Build(context.Background(), bad)
	if err == nil || strings.Contains(read(t, k.Log), retried) {
		t.Errorf("an error in a changed file should not be tried again: %v", err)
	}
	k = mustBuild(t, tree, stale)
	if k.Objects != 3 || !strings.Contains(read(t, k.Log), retried) {
		t.Errorf("compiled %d objects:\n%s", k.Objects, read(t, k.Log))
	}
}

func TestUnknownCommit(t *testing.T) {
	r := newRepo(t)
	spec := r.head()
	tree := newTree(t, r, nil)
	wrong := spec
	wrong.Commit = strings.Repeat("1", 40)
	if _, err := tree.Build(context.Background(), wrong); blame.Of(err) != blame.User {
		t.Errorf("unknown commit: %v", err)
	}
	wrong = spec
	wrong.Tree = strings.Repeat("1", 40)
	if _, err := tree.Build(context.Background(), wrong); blame.Of(err) != blame.User {
		t.Errorf("wrong tree: %v", err)
	}
	wrong = spec
	wrong.Compiler = "gcc; reboot"
	if _, err := tree.Build(context.Background(), wrong); blame.Of(err) != blame.User {
		t.Errorf("strange compiler: %v", err)
	}
	none := Options{Repo: t.TempDir(), CacheDir: t.TempDir()}
	if _, err := New(context.Background(), none); blame.Of(err) != blame.User {
		t.Errorf("no repository: %v", err)
	}
}

func TestProgress(t *testing.T) {
	r := newRepo(t)
	var done, expected []int
	tree := newTree(t, r, func(o *Options) {
		o.Progress = func(d, e int) { done, expected = append(done, d), append(expected, e) }
	})
	mustBuild(t, tree, r.head())
	if len(done) != 3 || done[2] != 3 || expected[2] != 0 {
		t.Errorf("first build: %v of %v", done, expected)
	}
	for _, o := range objectDirs(t, tree) {
		if err := o.wipe(); err != nil {
			t.Fatal(err)
		}
	}
	done, expected = nil, nil
	mustBuild(t, tree, r.commit("kernel/timer.c", "1000", "1001"))
	if len(done) != 3 || expected[0] != 3 {
		t.Errorf("from scratch: %v of %v", done, expected)
	}
	done, expected = nil, nil
	mustBuild(t, tree, r.commit("kernel/timer.c", "1001", "1002"))
	if len(done) != 1 || expected[0] != 0 {
		t.Errorf("a step: %v of %v", done, expected)
	}
}

func objectDirs(t *testing.T, tree *Tree) []objects {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(tree.slot, "objects", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	var all []objects
	for _, dir := range dirs {
		all = append(all, objects{dir})
	}
	return all
}

func TestCCache(t *testing.T) {
	if _, err := exec.LookPath("ccache"); err != nil {
		t.Skip("ccache is not installed")
	}
	r := newRepo(t)
	tree := newTree(t, r, nil)
	first := r.head()
	if k := mustBuild(t, tree, first); k.CacheHits != 0 {
		t.Errorf("an empty cache served %d objects", k.CacheHits)
	}
	mustBuild(t, tree, r.commit("kernel/timer.c", "1000", "1001"))
	back := r.commit("kernel/timer.c", "1001", "1000")
	r.commit("include/linux.h", "", "")
	if err := tree.store.remove(mustBuild(t, tree, back).Key); err != nil {
		t.Fatal(err)
	}
	delete(tree.store.held, mustKey(t, tree, back))
	if k := mustBuild(t, tree, back); k.Reused || k.Objects != 1 || k.CacheHits != 1 {
		t.Errorf("going back compiled %d objects, %d from the cache", k.Objects, k.CacheHits)
	}
}

func TestCCacheHits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stats")
	if n, err := ccacheHits(path); n != 0 || err != nil {
		t.Errorf("without a log: %d, %v", n, err)
	}
	log := `# /src/kernel/fork.c
direct_cache_hit
local_storage_hit
# /dev/null
direct_cache_hit
# /src/kernel/exit.c
cache_miss
# /src/kernel/entry.S
preprocessed_cache_hit
#
called_for_link
`
	if err := os.WriteFile(path, []byte(log), 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := ccacheHits(path); n != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", n, err)
	}
}

func mustKey(t *testing.T, tree *Tree, spec Spec) string {
	t.Helper()
	b, err := tree.prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return b.key
}

func TestBareRepository(t *testing.T) {
	r := newRepo(t)
	spec := r.head()
	bare := filepath.Join(t.TempDir(), "linux.git")
	r.git("clone", "--quiet", "--bare", r.dir, bare)
	tree := newTree(t, repo{t, bare}, func(o *Options) { o.CacheDir = t.TempDir() })
	mustBuild(t, tree, spec)
}

// TestUsersCheckout holds that a build leaves the user's checkout as it is,
// with hooks, local changes and a sparse checkout of their own.
func TestUsersCheckout(t *testing.T) {
	r := newRepo(t)
	first := r.head()
	second := r.commit("kernel/timer.c", "1000", "1001")
	hooked := filepath.Join(r.dir, "hooked")
	hook := filepath.Join(r.dir, ".git/hooks/post-checkout")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+hooked+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("sparse-checkout", "set", "--no-cone", "/kernel/")
	r.git("checkout", "--quiet", "master")
	if err := os.Remove(hooked); err != nil {
		t.Fatal("the hook does not work: ", err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "kernel/timer.c"), []byte("local change"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := r.git("status", "--porcelain=v2", "--branch")
	tree := newTree(t, r, nil)
	mustBuild(t, tree, first)
	mustBuild(t, tree, second)
	if after := r.git("status", "--porcelain=v2", "--branch"); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if _, err := os.Stat(hooked); err == nil {
		t.Error("the user's hook was run")
	}
}

func TestWorkTreeIsRepaired(t *testing.T) {
	for name, harm := range map[string]func(r repo, tree *Tree) error{
		"entry pruned": func(r repo, tree *Tree) error {
			return os.RemoveAll(filepath.Join(r.dir, ".git/worktrees"))
		},
		"directory gone": func(r repo, tree *Tree) error { return os.RemoveAll(tree.work.dir) },
		"link gone":      func(r repo, tree *Tree) error { return os.Remove(filepath.Join(tree.work.dir, ".git")) },
		"foreign link": func(r repo, tree *Tree) error {
			return os.WriteFile(filepath.Join(tree.work.dir, ".git"), []byte("gitdir: "+r.dir+"/.git"), 0o644)
		},
		"git killed": func(r repo, tree *Tree) error {
			return os.WriteFile(filepath.Join(r.dir, ".git/worktrees/src/index.lock"), nil, 0o644)
		},
		"files changed": func(r repo, tree *Tree) error {
			stray := filepath.Join(tree.work.dir, "kernel/stray.c")
			return errors.Join(os.WriteFile(stray, []byte("#error stray"), 0o644),
				os.WriteFile(filepath.Join(tree.work.dir, "kernel/timer.c"), []byte("#error changed"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			tree := newTree(t, r, nil)
			mustBuild(t, tree, r.head())
			if err := harm(r, tree); err != nil {
				t.Fatal(err)
			}
			mustBuild(t, tree, r.commit("kernel/sched.c", "2000", "2001"))
		})
	}
}
