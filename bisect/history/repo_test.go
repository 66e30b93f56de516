package history

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bisectd/bisect"
)

// dag lists the parents of each commit by number, parents first.
type dag [][]int

// chain is a linear history of n commits.
func chain(n int) dag {
	g := make(dag, n)
	for i := 1; i < n; i++ {
		g[i] = []int{i - 1}
	}
	return g
}

// heads lists the commits without children.
func (g dag) heads() []int {
	child := make([]bool, len(g))
	for _, parents := range g {
		for _, p := range parents {
			child[p] = true
		}
	}
	var heads []int
	for i, c := range child {
		if !c {
			heads = append(heads, i)
		}
	}
	return heads
}

// reaches tells whether from is to or has it as an ancestor.
func (g dag) reaches(from, to int) bool {
	seen := make([]bool, len(g))
	seen[from] = true
	for i := from; i >= to; i-- {
		if !seen[i] {
			continue
		}
		for _, p := range g[i] {
			seen[p] = true
		}
	}
	return seen[to]
}

// tester is what rapid.T and testing.TB share.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// gitIn runs native git and returns its output, trimmed.
func gitIn(t tester, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(environment(filepath.Dir(dir)), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=author@example.org", "GIT_AUTHOR_DATE=1700000000 +0100",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org", "GIT_COMMITTER_DATE=1700000000 +0100")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if failed, ok := err.(*exec.ExitError); ok {
			stderr = string(failed.Stderr)
		}
		t.Fatalf("git %v: %v\n%s", args, err, stderr)
	}
	return strings.TrimSpace(string(out))
}

// stream writes g for git fast-import: commit i has the subject "ci", the
// file f with its number, and the tag ci.
func (g dag) stream() string {
	var b strings.Builder
	for i, parents := range g {
		fmt.Fprintf(&b, "reset refs/heads/main\ncommit refs/heads/main\nmark :%d\n", i+1)
		fmt.Fprintf(&b, "author A U Thor <author@example.org> %d +0100\n", 1700000000+i)
		fmt.Fprintf(&b, "committer C <c@example.org> %d +0100\n", 1700000000+i)
		message := fmt.Sprintf("c%d", i)
		fmt.Fprintf(&b, "data %d\n%s\n", len(message), message)
		for k, p := range parents {
			fmt.Fprintf(&b, "%s :%d\n", []string{"from", "merge"}[min(k, 1)], p+1)
		}
		content := fmt.Sprint(i)
		fmt.Fprintf(&b, "M 644 inline f\ndata %d\n%s\n", len(content), content)
		fmt.Fprintf(&b, "reset refs/tags/c%d\nfrom :%d\n\n", i, i+1)
	}
	return b.String()
}

// fill makes a repository of g in the empty directory dir and returns the
// commits' ids by number.
func (g dag) fill(t tester, dir string, initArgs ...string) []string {
	t.Helper()
	gitIn(t, dir, "", append([]string{"init", "--quiet", "--initial-branch=main"}, initArgs...)...)
	gitIn(t, dir, g.stream(), "fast-import", "--quiet", "--export-marks="+filepath.Join(dir, "marks"))
	data, err := os.ReadFile(filepath.Join(dir, "marks"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	ids := make([]string, len(g))
	for line := range strings.Lines(string(data)) {
		var mark int
		var id string
		if _, err := fmt.Sscanf(line, ":%d %s", &mark, &id); err != nil {
			t.Fatalf("marks: %q: %v", line, err)
		}
		ids[mark-1] = id
	}
	return ids
}

func (g dag) repo(t *testing.T, initArgs ...string) (string, []string) {
	t.Helper()
	dir := t.TempDir()
	return dir, g.fill(t, dir, initArgs...)
}

func mustOpen(t tester, dir string, good []string, bad string) *Range {
	t.Helper()
	r, err := Open(context.Background(), dir, good, bad)
	if err != nil {
		t.Fatalf("Open(%v, %s): %v", good, bad, err)
	}
	return r
}

// subjects names commits by their subjects.
func subjects(commits []bisect.Commit) string {
	var names []string
	for _, c := range commits {
		names = append(names, c.Subject)
	}
	return strings.Join(names, " ")
}
