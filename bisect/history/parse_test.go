package history

import (
	"slices"
	"strings"
	"testing"
)

func FuzzParseRevList(f *testing.F) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 64)
	for _, seed := range []string{
		"", "\n", a + "\n", a + " " + b + "\n" + b + "\n", a + " " + b + "\n" + b, b + "\n" + a + " " + b + "\n",
		a + " " + a + "\n", a + "\n" + a + "\n", c + " " + b + "\n", a + "  " + b + "\n", strings.ToUpper(a) + "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		nodes, err := parseRevList(out)
		if err != nil {
			return
		}
		var lines []string
		listed := map[string]bool{}
		for _, n := range nodes {
			if listed[n.id] || slices.Contains(n.parents, n.id) {
				t.Fatalf("%s twice", n.id)
			}
			listed[n.id] = true
			for _, p := range n.parents {
				if listed[p] {
					t.Fatalf("parent %s before its child", p)
				}
			}
			lines = append(lines, strings.Join(append([]string{n.id}, n.parents...), " "))
		}
		if got := strings.Join(lines, "\n"); got != strings.TrimSuffix(string(out), "\n") {
			t.Fatalf("read %q from %q", got, out)
		}
	})
}

func FuzzParseCommits(f *testing.F) {
	id := strings.Repeat("a", 40)
	for _, seed := range []string{
		"", "commit " + id + "\n" + id + "\x00N\x00m@example.org\x001700000000\x00subject\n",
		"commit " + id + "\n" + id + "\x00\x00\x00\x00\n", "commit " + id + "\n", id + "\n" + id + "\n",
		"commit " + id + "\n" + id + "\x00N\x00m\x00x\x00s\n", "commit " + id + "\n" + id + "\x00N\xff\x00m\x00-1\x00a\x00b\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		commits, err := parseCommits(out)
		if err != nil {
			return
		}
		if len(commits) > strings.Count(string(out), "commit ") {
			t.Fatalf("%d commits from %q", len(commits), out)
		}
		for _, c := range commits {
			if !isID(c.ID) || !isID(c.Tree) || strings.ContainsAny(c.Subject+c.Author, "\n\x00") && c.Subject == "" {
				t.Fatalf("read %+v from %q", c, out)
			}
		}
	})
}
