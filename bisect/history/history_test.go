package history

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bisectd/bisect"
	"bisectd/blame"
)

var _ bisect.Range = (*Range)(nil)

// shapes are histories whose last commit is bad.
var shapes = map[string]struct {
	dag  dag
	good []string
	want string // candidates, sorted
}{
	"linear":         {chain(5), []string{"c0"}, "c1 c2 c3 c4"},
	"one":            {chain(2), []string{"c0"}, "c1"},
	"merge":          {dag{{}, {0}, {0}, {1, 2}, {3}}, []string{"c1"}, "c2 c3 c4"},
	"criss-cross":    {dag{{}, {0}, {0}, {1, 2}, {2, 1}, {3, 4}}, []string{"c1"}, "c2 c3 c4 c5"},
	"octopus":        {dag{{}, {0}, {0}, {0}, {0}, {1, 2, 3, 4}}, []string{"c0"}, "c1 c2 c3 c4 c5"},
	"several good":   {dag{{}, {0}, {0}, {1, 2}, {3}}, []string{"c1", "c2", "c1"}, "c3 c4"},
	"good in good":   {chain(6), []string{"c1", "c3"}, "c4 c5"},
	"second root":    {dag{{}, {0}, {}, {2}, {1, 3}}, []string{"c1"}, "c2 c3 c4"},
	"good is a root": {dag{{}, {}, {0, 1}}, []string{"c0"}, "c1 c2"},
	"parent outside": {dag{{}, {0}, {1}, {1}, {2, 3}}, []string{"c2"}, "c3 c4"},
}

func TestOpen(t *testing.T) {
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			dir, ids := s.dag.repo(t)
			r := mustOpen(t, dir, s.good, "main")
			var got []string
			for _, c := range r.commits {
				got = append(got, c.Subject)
			}
			slices.Sort(got)
			if diff := cmp.Diff(s.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("candidates: -want +got\n%s", diff)
			}
			if r.Len() != len(got) || r.Bad().ID != ids[len(ids)-1] {
				t.Errorf("Len %d, Bad %s", r.Len(), r.Bad())
			}
			checkOrder(t, r)
			checkMetadata(t, dir, r, s.dag, ids)
		})
	}
}

// checkOrder verifies that parents come first and that every parent of a
// candidate is known.
func checkOrder(t *testing.T, r *Range) {
	t.Helper()
	for i, c := range r.commits {
		for _, p := range c.Parents {
			if k, ok := r.index[p]; ok && int(k) >= i {
				t.Errorf("%s stands before its parent", c.Subject)
			}
			if got, ok := r.Commit(p); !ok || got.ID != p {
				t.Errorf("parent %s of %s is not known", p, c.Subject)
			}
		}
	}
}

func checkMetadata(t *testing.T, dir string, r *Range, g dag, ids []string) {
	t.Helper()
	for i, id := range ids {
		got, ok := r.Commit(id)
		if !ok {
			continue
		}
		want := bisect.Commit{
			ID: id, Tree: gitIn(t, dir, "", "rev-parse", id+"^{tree}"), Subject: gitIn(t, dir, "", "log", "-1", "--format=%s", id),
			Author: "A U Thor <author@example.org>", Date: time.Unix(1700000000+int64(i), 0).UTC(),
		}
		if _, candidate := r.index[id]; candidate {
			for _, p := range g[i] {
				want.Parents = append(want.Parents, ids[p])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("commit %d: -want +got\n%s", i, diff)
		}
	}
}

func TestRevisions(t *testing.T) {
	dir, ids := chain(6).repo(t)
	gitIn(t, dir, "", "tag", "-a", "-m", "annotated", "v1", ids[1])
	gitIn(t, dir, "", "tag", "-a", "-m", "tag of a tag", "v1-again", "v1")
	gitIn(t, dir, "", "branch", "topic", ids[1])
	gitIn(t, dir, "", "update-ref", "refs/remotes/origin/master", ids[1])
	gitIn(t, dir, "", "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/master")
	// A tag whose name looks like the abbreviated id of another commit.
	gitIn(t, dir, "", "tag", ids[3][:8], ids[1])
	for _, rev := range []string{
		"c1", "v1", "v1-again", "topic", "heads/topic", "refs/heads/topic", "origin/master", "origin",
		ids[1], strings.ToUpper(ids[1]), ids[1][:12], ids[1][:7], ids[3][:8], "main~4", "c2^", "v1^{commit}", "v1^0", ":/c1",
	} {
		for _, mode := range []string{"go-git", "git"} {
			r := reopen(t, dir, mode == "git", rev)
			if r != ids[1] {
				t.Errorf("%s: %s: got %s, want %s", mode, rev, r, ids[1])
			}
		}
	}
}

// reopen resolves rev by the reader, with or without go-git.
func reopen(t *testing.T, dir string, native bool, rev string) string {
	t.Helper()
	g, err := openGit(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	src, err := newReader(t.Context(), g)
	if err != nil || src.lib == nil {
		t.Fatalf("reader %+v, %v", src, err)
	}
	if native {
		src.lib = nil
	}
	id, err := src.resolve(t.Context(), "good", rev)
	if err != nil {
		t.Error(err)
	}
	return id
}

// The fallback must tell the same as go-git, whatever a message looks like.
func TestReadersAgree(t *testing.T) {
	dir := t.TempDir()
	gitIn(t, dir, "", "init", "--quiet")
	tree := gitIn(t, dir, "", "hash-object", "-t", "tree", "-w", "/dev/null")
	var ids []string
	for _, message := range []string{
		"plain\n", "two\nlines\n\nbody\n", "\n\n  leading blanks  \n\nbody\n", "trailing \t\nmore  \n", "", "\n",
		"Gleixner\u00e4\n", "latin \xe4\n", "tab\tinside\n", "no newline", "carriage\r\nreturn\r\n\r\nbody", "a\x01b",
	} {
		raw := "tree " + tree + "\nauthor J\xf6rg <j@example.org> 1700000000 -0730\n" +
			"committer C <c@example.org> 1700000001 +0000\n\n" + message
		ids = append(ids, gitIn(t, dir, raw, "hash-object", "-t", "commit", "-w", "--stdin"))
	}
	raw := "tree " + tree + "\nauthor \xd6 <j@example.org> 1700000000 +0000\ncommitter C <c@example.org> 1 +0000\n" +
		"encoding ISO-8859-1\n\nm\xfcde\n"
	ids = append(ids, gitIn(t, dir, raw, "hash-object", "-t", "commit", "-w", "--stdin"))

	g, err := openGit(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	src, err := newReader(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		byLib, err := src.commits(t.Context(), []string{id})
		if err != nil {
			t.Fatal(err)
		}
		byGit, err := g.commits(t.Context(), []string{id})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(byGit, byLib); diff != "" {
			t.Errorf("message %d: -git +go-git\n%s", i, diff)
		}
	}
	last, err := src.commits(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	if got := last[len(last)-1]; got.Subject != "m\u00fcde" || got.Author != "\u00d6 <j@example.org>" {
		t.Errorf("declared Latin-1: %q by %q", got.Subject, got.Author)
	}
}

func TestRepositoryForms(t *testing.T) {
	g := chain(5)
	tests := map[string]struct {
		reader string // go-git, git alone, or what this version of git makes necessary
		make   func(t *testing.T) string
	}{
		"bare": {"go-git", func(t *testing.T) string {
			dir, _ := g.repo(t, "--bare")
			return dir
		}},
		"packed": {"go-git", func(t *testing.T) string {
			dir, _ := g.repo(t)
			gitIn(t, dir, "", "gc", "--quiet")
			return dir
		}},
		"git directory": {"go-git", func(t *testing.T) string {
			dir, _ := g.repo(t)
			return filepath.Join(dir, ".git")
		}},
		"linked work tree": {"go-git", func(t *testing.T) string {
			dir, _ := g.repo(t)
			tree := filepath.Join(t.TempDir(), "tree")
			gitIn(t, dir, "", "worktree", "add", "--quiet", "--detach", tree, "c4")
			return tree
		}},
		"alternates": {"go-git", func(t *testing.T) string {
			dir, _ := g.repo(t)
			clone := filepath.Join(t.TempDir(), "clone")
			gitIn(t, dir, "", "clone", "--quiet", "--shared", dir, clone)
			return clone
		}},
		"symbolic link": {"go-git", func(t *testing.T) string {
			dir, _ := g.repo(t)
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			return link
		}},
		"partial clone": {"any", func(t *testing.T) string {
			dir, _ := g.repo(t)
			gitIn(t, dir, "", "config", "uploadpack.allowFilter", "true")
			clone := filepath.Join(t.TempDir(), "clone")
			gitIn(t, dir, "", "clone", "--quiet", "--no-checkout", "--filter=tree:0", "file://"+dir, clone)
			return clone
		}},
		"unknown extension": {"git", func(t *testing.T) string {
			dir, _ := g.repo(t)
			gitIn(t, dir, "", "config", "extensions.partialClone", "origin")
			gitIn(t, dir, "", "config", "core.repositoryformatversion", "1")
			return dir
		}},
		"SHA-256": {"git", func(t *testing.T) string {
			dir, _ := g.repo(t, "--object-format=sha256")
			return dir
		}},
		"replaced": {"git", func(t *testing.T) string {
			dir, ids := g.repo(t)
			gitIn(t, dir, "", "replace", "--edit", "--raw", ids[0])
			return dir
		}},
	}
	t.Setenv("GIT_EDITOR", "printf '\\nx' >>")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := test.make(t)
			r := mustOpen(t, dir, []string{"c0"}, "c4")
			if got := subjects(r.commits); got != "c1 c2 c3 c4" {
				t.Errorf("candidates %s", got)
			}
			git, err := openGit(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			src, err := newReader(t.Context(), git)
			if err != nil {
				t.Fatal(err)
			}
			got := "go-git"
			if src.lib == nil {
				got = "git"
			}
			if test.reader != got && test.reader != "any" {
				t.Errorf("read by %s, want %s", got, test.reader)
			}
		})
	}
}

// Grafted history is what git shows, not what is stored.
func TestReplacedParents(t *testing.T) {
	dir, ids := chain(5).repo(t)
	gitIn(t, dir, "", "replace", "--graft", ids[3], ids[1])
	r := mustOpen(t, dir, []string{"c0"}, "c4")
	if got := subjects(r.commits); got != "c1 c3 c4" {
		t.Errorf("candidates %s", got)
	}
}

func TestUserErrors(t *testing.T) {
	dir, ids := dag{{}, {0}, {0}, {1}, {1, 2}, {2, 1}, {}, {4}, {5}}.repo(t)
	gitIn(t, dir, "", "tag", "tree", "c0^{tree}")
	outer, _ := chain(2).repo(t)
	inner := filepath.Join(outer, "sub")
	if err := os.Mkdir(inner, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(outer, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		repo string
		good []string
		bad  string
		want []string
	}{
		"no directory":     {filepath.Join(dir, "nowhere"), []string{"c0"}, "c1", []string{"nowhere: no such directory"}},
		"a file":           {file, []string{"c0"}, "c1", []string{"no such directory"}},
		"no repository":    {t.TempDir(), []string{"c0"}, "c1", []string{"is no git repository"}},
		"repository above": {inner, []string{"c0"}, "c1", []string{"is no git repository"}},
		"no good given":    {dir, nil, "c1", []string{"no good revision"}},
		"good unknown":     {dir, []string{"c0", "v6.99"}, "c1", []string{`good revision "v6.99" names no commit`, "fetch"}},
		"bad unknown":      {dir, []string{"c0"}, "v6.99", []string{`bad revision "v6.99" names no commit`}},
		"id unknown":       {dir, []string{"c0"}, strings.Repeat("1", 40), []string{"bad revision", "names no commit"}},
		"option":           {dir, []string{"--all"}, "c1", []string{`good revision "--all" names no commit`}},
		"empty":            {dir, []string{""}, "c1", []string{`good revision "" names no commit`}},
		"two revisions":    {dir, []string{"c0..c1"}, "c1", []string{`good revision "c0..c1" names no commit`}},
		"a tree":           {dir, []string{"tree"}, "c1", []string{`good revision "tree" names no commit`}},
		"a git file":       {dir, []string{"config"}, "c1", []string{`good revision "config" names no commit`}},
		"ends equal":       {dir, []string{"c1"}, ids[1], []string{"are the same commit " + ids[1][:12]}},
		"swapped":          {dir, []string{"c4"}, "c1", []string{"swapped", "use c1 as good: and c4 as bad:"}},
		"branches":         {dir, []string{"c3"}, "c2", []string{"no ancestor", "merge base", "good: " + ids[0]}},
		"criss-cross":      {dir, []string{"c7"}, "c8", []string{"2 merge bases", ids[1], ids[2]}},
		"unrelated":        {dir, []string{"c6"}, "c4", []string{"no common history"}},
		"second good":      {dir, []string{"c0", "c3"}, "c2", []string{"good c3 is no ancestor of bad c2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), test.repo, test.good, test.bad)
			checkUser(t, err, test.want...)
		})
	}
}

func checkUser(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil || blame.Of(err) != blame.User {
		t.Fatalf("got %v (blame %v), want the user's blame", err, blame.Of(err))
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
}

func TestAmbiguousAbbreviation(t *testing.T) {
	// 400 commits have 4-digit prefixes in common.
	dir, ids := chain(1000).repo(t)
	slices.Sort(ids)
	i := 1
	for ids[i-1][:4] != ids[i][:4] {
		i++
	}
	_, err := Open(t.Context(), dir, []string{"c0"}, ids[i][:4])
	checkUser(t, err, "bad revision", "ambiguous")
}

func TestShallow(t *testing.T) {
	g := chain(10)
	dir, _ := g.repo(t)
	clone := func(depth string) string {
		to := filepath.Join(t.TempDir(), "clone")
		gitIn(t, dir, "", "clone", "--quiet", "--depth="+depth, "file://"+dir, to)
		return to
	}
	_, err := Open(t.Context(), clone("3"), []string{"c2"}, "main")
	checkUser(t, err, `good revision "c2" names no commit`, "in this shallow clone")

	// A merge brings a branch whose history is cut, though good is there.
	m := dag{{}, {0}, {1}, {2}, {3}, {0}, {5}, {4, 6}}
	dir, _ = m.repo(t)
	_, err = Open(t.Context(), clone("2"), []string{"main^1"}, "main")
	checkUser(t, err, "ends inside the range", "fetch --unshallow")

	// Enough history for the range is enough.
	dir, _ = g.repo(t)
	r := mustOpen(t, clone("5"), []string{"main~3"}, "main")
	if got := subjects(r.commits); got != "c7 c8 c9" {
		t.Errorf("candidates %s", got)
	}

	// The ends are there and what connects them is not.
	to := clone("1")
	gitIn(t, to, "", "fetch", "--quiet", "--depth=1", "origin", "tag", "c4")
	_, err = Open(t.Context(), to, []string{"c4"}, "main")
	checkUser(t, err, "shallow clone", "fetch --unshallow")
}

func TestGitMissing(t *testing.T) {
	dir, _ := chain(2).repo(t)
	t.Setenv("PATH", t.TempDir())
	_, err := Open(t.Context(), dir, []string{"c0"}, "c1")
	checkUser(t, err, "git is not installed", "install the package git")
}

func TestOtherRepositoryInEnvironment(t *testing.T) {
	dir, _ := chain(3).repo(t)
	other, _ := chain(2).repo(t)
	t.Setenv("GIT_DIR", filepath.Join(other, ".git"))
	r := mustOpen(t, dir, []string{"c0"}, "c2")
	if r.Len() != 2 {
		t.Errorf("%d candidates", r.Len())
	}
}

func TestDamagedRepository(t *testing.T) {
	dir, ids := chain(3).repo(t)
	if err := os.Remove(filepath.Join(dir, ".git/objects", ids[1][:2], ids[1][2:])); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), dir, []string{ids[0]}, ids[2])
	if err == nil || blame.Of(err) != blame.Infrastructure {
		t.Errorf("got %v (blame %v), want infrastructure", err, blame.Of(err))
	}
}

func TestCancelled(t *testing.T) {
	dir, _ := chain(3).repo(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, dir, []string{"c0"}, "c2"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A git that hangs with a child must be gone when the context ends.
func TestKillsProcessGroup(t *testing.T) {
	bin := t.TempDir()
	pidFile := filepath.Join(bin, "pid")
	script := "#!/bin/sh\nsleep 600 &\necho $! >" + pidFile + ".new; mv " + pidFile + ".new " + pidFile + "; wait\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(pidFile); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := Open(ctx, t.TempDir(), []string{"a"}, "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	// SIGKILL is under way; a zombie is one that nobody reaps in this container.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child of git is still there: %s", stat)
		}
	}
}
