package history

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"bisectd/bisect"
)

// candidateRange makes a range of g alone, in which every commit is a
// candidate; ids are the numbers as 40 digits.
func (g dag) candidateRange() *Range {
	r := &Range{parents: make([][]int32, len(g)), index: map[string]int32{}}
	for i, parents := range g {
		c := bisect.Commit{ID: fmt.Sprintf("%040d", i), Subject: fmt.Sprintf("c%d", i)}
		for _, p := range parents {
			r.parents[i] = append(r.parents[i], int32(p))
		}
		r.commits = append(r.commits, c)
		r.index[c.ID] = int32(i)
	}
	return r
}

// walk lets answer judge commits until the walk is done.
func walk(t tester, r *Range, answer func(bisect.Commit) bisect.Verdict) (bisect.Step, map[string]bisect.Verdict) {
	t.Helper()
	verdicts := map[string]bisect.Verdict{}
	for range r.Len() + 1 {
		step := r.Next(verdicts)
		if step.Done {
			return step, verdicts
		}
		if _, twice := verdicts[step.Test.ID]; twice {
			t.Fatalf("%s is to be tested twice", step.Test.Subject)
		}
		verdicts[step.Test.ID] = answer(step.Test)
	}
	t.Fatalf("no end after %d tests", r.Len()+1)
	return bisect.Step{}, nil
}

// oracle answers for g when commit first is the first new one and the listed
// ones cannot be tested.
func (g dag) oracle(first int, skipped ...int) func(bisect.Commit) bisect.Verdict {
	return func(c bisect.Commit) bisect.Verdict {
		var i int
		if _, err := fmt.Sscanf(c.Subject, "c%d", &i); err != nil {
			panic(err)
		}
		switch {
		case slices.Contains(skipped, i):
			return bisect.Skip
		case g.reaches(i, first):
			return bisect.New
		}
		return bisect.Old
	}
}

func TestWalkFindsEveryCommit(t *testing.T) {
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			dir, ids := s.dag.repo(t)
			r := mustOpen(t, dir, s.good, "main")
			for first, id := range ids {
				if _, candidate := r.index[id]; !candidate {
					continue
				}
				step, _ := walk(t, r, s.dag.oracle(first))
				if got := subjects(step.Suspects); got != fmt.Sprintf("c%d", first) || step.Left != 1 || step.Steps != 0 {
					t.Errorf("first new c%d: got %s, %+v", first, got, step)
				}
			}
		})
	}
}

func TestWalkWithVerdicts(t *testing.T) {
	merge := dag{{}, {0}, {0}, {1}, {2}, {3, 4}, {5}} // two branches of two commits each
	tests := map[string]struct {
		dag      dag
		verdicts string // e.g. "c3 new, c1 old"
		want     string
	}{
		"merge of old parents is the answer": {merge, "c5 new, c3 old, c4 old", "done c5"},
		"one candidate":                      {chain(1), "", "done c0"},
		"middle":                             {chain(8), "", "test c3, 8 left, 3 steps"},
		"new restricts":                      {chain(8), "c3 new", "test c1, 4 left, 2 steps"},
		"old removes":                        {chain(8), "c3 old", "test c5, 4 left, 2 steps"},
		"new on a branch":                    {merge, "c3 new", "test c0, 3 left, 2 steps"},
		"unknown is not tested":              {chain(8), "c3 unknown", "test c3, 8 left, 3 steps"},
		"verdict outside the range":          {chain(8), "elsewhere new", "test c3, 8 left, 3 steps"},
		"bad listed as new":                  {chain(8), "c7 new", "test c3, 8 left, 3 steps"},
		"skip of the bad end":                {chain(8), "c7 skip", "test c2, 8 left, 3 steps"},
		"skip at the middle":                 {chain(8), "c3 skip", "test c1, 8 left, 3 steps"},
		"skips and old and new":              {chain(4), "c3 new, c0 old, c1 skip, c2 skip", "done c1 c2 c3"},
		"all skipped":                        {chain(4), "c0 skip, c1 skip, c2 skip", "done c0 c1 c2 c3"},
		"skipped is not first new":           {chain(4), "c1 skip, c2 old", "done c3"},
		"skipped below new":                  {chain(4), "c0 skip, c1 new", "done c0 c1"},
		"tested beside skipped":              {chain(4), "c1 skip, c2 skip", "test c0, 4 left, 2 steps"},
		"old above new":                      {chain(4), "c1 new, c2 old", "done"},
		"old above new leaves nothing":       {merge, "c6 old, c1 new", "done"},
		"bad is old":                         {chain(4), "c3 old", "done"},
		"new on both branches":               {merge, "c3 new, c4 new", "done c0"},
		"incomparable, none in common":       {dag{{}, {}, {0, 1}}, "c0 new, c1 new", "done"},
		"several tips in common":             {dag{{}, {}, {0, 1}, {1, 0}, {2, 3}}, "c2 new, c3 new", "test c0, 2 left, 1 steps"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			verdicts := map[string]bisect.Verdict{}
			for entry := range strings.SplitSeq(test.verdicts, ", ") {
				subject, word, _ := strings.Cut(entry, " ")
				var v bisect.Verdict
				if err := v.UnmarshalText([]byte(word)); err != nil {
					t.Fatal(err)
				}
				var i int
				if _, err := fmt.Sscanf(subject, "c%d", &i); err != nil {
					i = 999
				}
				verdicts[fmt.Sprintf("%040d", i)] = v
			}
			step := test.dag.candidateRange().Next(verdicts)
			got := fmt.Sprintf("test %s, %d left, %d steps", step.Test.Subject, step.Left, step.Steps)
			if step.Done {
				got = strings.TrimSpace("done " + subjects(step.Suspects))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// drawDAG draws a history of at most n commits in which the last one reaches
// all: roots, forks, merges and octopuses.
func drawDAG(t *rapid.T, n, maxParents int) dag {
	size := rapid.IntRange(2, n).Draw(t, "commits")
	g := make(dag, size)
	for i := 1; i < size; i++ {
		count := rapid.SampledFrom([]int{1, 1, 1, 0, 2, 2, maxParents}).Draw(t, "parents")
		for range count {
			// Mostly recent ones, as in real histories.
			p := i - 1 - rapid.IntRange(0, min(i-1, 8)).Draw(t, "back")
			if !slices.Contains(g[i], p) && len(g[i]) < maxParents {
				g[i] = append(g[i], p)
			}
		}
	}
	for { // merge the loose heads
		heads := g.heads()
		if len(heads) == 1 {
			return g
		}
		g = append(g, heads[:min(len(heads), max(2, maxParents))])
	}
}

// The weights are those of git rev-list --bisect-all, and without skips the
// choice is its first line, at the start and in the middle of a walk.
func TestAgreesWithGit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawDAG(t, 30, 4)
		dir, err := os.MkdirTemp("", "history")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		ids := g.fill(t, dir)
		good := rapid.IntRange(0, len(g)-2).Draw(t, "good")
		r := mustOpen(t, dir, []string{ids[good]}, ids[len(ids)-1])
		verdicts := map[string]bisect.Verdict{}
		args := []string{"rev-list", "--bisect-all", ids[len(ids)-1], "^" + ids[good]}
		first := int(r.index[rapid.SampledFrom(r.commits).Draw(t, "first new").ID])
		for {
			lines := strings.Split(gitIn(t, dir, "", args...), "\n")
			compareWeights(t, r.candidates(verdicts), r, lines)
			step := r.Next(verdicts)
			if step.Done {
				break
			}
			if best, _, _ := strings.Cut(lines[0], " "); step.Test.ID != best {
				t.Fatalf("chose %s, git %s", step.Test.ID, best)
			}
			if r.ancestors(r.index[step.Test.ID])[first] {
				verdicts[step.Test.ID] = bisect.New
				args[2] = step.Test.ID
			} else {
				verdicts[step.Test.ID] = bisect.Old
				args = append(args, "^"+step.Test.ID)
			}
		}
	})
}

// compareWeights compares with lines of "ID (..., dist=N)".
func compareWeights(t *rapid.T, c candidates, r *Range, lines []string) {
	want := map[string]int{}
	for _, line := range lines {
		id, rest, _ := strings.Cut(line, " ")
		_, number, _ := strings.Cut(rest, "dist=")
		var dist int
		if _, err := fmt.Sscanf(number, "%d)", &dist); err != nil {
			t.Fatalf("git rev-list --bisect-all: %q", line)
		}
		want[id] = dist
	}
	got := map[string]int{}
	for i, w := range c.weights() {
		got[r.commits[c.at[i]].ID] = min(w, c.len()-w)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-git +own\n%s", diff)
	}
}

// Whatever the history, a perfect oracle leads to the first new commit, and
// with skips the first new one is among the suspects, which are no more than
// it and commits that no test can tell from it.
func TestWalkProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawDAG(t, 120, 6)
		r := g.candidateRange()
		n := len(g)
		first := rapid.IntRange(0, n-1).Draw(t, "first new")
		step, _ := walk(t, r, g.oracle(first))
		if got := subjects(step.Suspects); got != fmt.Sprintf("c%d", first) {
			t.Fatalf("first new c%d, got %s", first, got)
		}
		skipped := rapid.SliceOfN(rapid.IntRange(0, n-2), 0, n/2).Draw(t, "skipped")
		step, verdicts := walk(t, r, g.oracle(first, skipped...))
		names := strings.Fields(subjects(step.Suspects))
		if !slices.Contains(names, fmt.Sprintf("c%d", first)) {
			t.Fatalf("first new c%d is not in %v", first, names)
		}
		untested := 0
		for _, s := range step.Suspects {
			if verdicts[s.ID] != bisect.Skip {
				untested++
			}
		}
		if untested > 1 {
			t.Fatalf("%d suspects were not skipped", untested)
		}
	})
}

// A linear history takes the fewest tests there are. With two parents at most
// a commit with at least (n-1)/3 on either side always exists, hence the
// logarithm to the base 3/2.
func TestSteps(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 9, 100, 1000} {
		g := chain(n)
		r := g.candidateRange()
		for _, first := range []int{0, n / 3, n / 2, n - 1} {
			if _, verdicts := walk(t, r, g.oracle(first)); len(verdicts) > bits.Len(uint(n-1)) {
				t.Errorf("%d commits, first new c%d: %d tests", n, first, len(verdicts))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		g := drawDAG(t, 150, 2)
		first := rapid.IntRange(0, len(g)-1).Draw(t, "first new")
		_, verdicts := walk(t, g.candidateRange(), g.oracle(first))
		if limit := 1 + math.Log(float64(len(g)))/math.Log(1.5); float64(len(verdicts)) > limit {
			t.Fatalf("%d commits: %d tests", len(g), len(verdicts))
		}
	})
}

// kernelShaped is a main line that merges topic branches of 1 to 40 commits,
// some with merges of their own.
func kernelShaped(n int) dag {
	random := rand.New(rand.NewPCG(1, 2))
	g := dag{{}}
	main := 0
	for len(g) < n {
		from := max(0, main-random.IntN(200))
		tip := from
		for range 1 + random.IntN(40) {
			parents := []int{tip}
			if random.IntN(20) == 0 && main != tip {
				parents = append(parents, main)
			}
			tip = len(g)
			g = append(g, parents)
		}
		g = append(g, []int{main, tip})
		main = len(g) - 1
	}
	return g
}

func TestStepsOfKernelHistory(t *testing.T) {
	g := kernelShaped(4000)
	r := g.candidateRange()
	for first := 0; first < len(g); first += 97 {
		step, verdicts := walk(t, r, g.oracle(first))
		if len(step.Suspects) != 1 || len(verdicts) > bits.Len(uint(len(g)-1))+2 {
			t.Errorf("first new c%d: %d suspects after %d tests", first, len(step.Suspects), len(verdicts))
		}
	}
}

// A wide stretch of broken commits around the middle costs few tests: 10 are
// needed without it, and the hardest case is a first new commit at its edge.
func TestSkipCluster(t *testing.T) {
	g := chain(1000)
	r := g.candidateRange()
	for _, width := range []int{1, 10, 100, 200, 400} {
		var broken []int
		for i := 500 - width/2; i < 500+(width+1)/2; i++ {
			broken = append(broken, i)
		}
		for _, first := range []int{0, 100, broken[0] - 1, broken[len(broken)-1] + 2, 900, 999} {
			step, verdicts := walk(t, r, g.oracle(first, broken...))
			if got := subjects(step.Suspects); got != fmt.Sprintf("c%d", first) {
				t.Errorf("width %d: first new c%d, got %.60s", width, first, got)
			}
			skips := 0
			for _, v := range verdicts {
				if v == bisect.Skip {
					skips++
				}
			}
			t.Logf("width %3d, first new c%d: %d tests, %d of them skips", width, first, len(verdicts), skips)
			if limit := map[bool]int{true: 20, false: 40}[width <= 200]; len(verdicts) > limit {
				t.Errorf("width %d, first new c%d: %d tests, %d of them skips", width, first, len(verdicts), skips)
			}
		}
	}
}

func TestNextIsDeterministic(t *testing.T) {
	g := kernelShaped(500)
	r := g.candidateRange()
	verdicts := map[string]bisect.Verdict{}
	for i := 0; i < 400; i += 7 {
		verdicts[r.commits[i].ID] = bisect.Skip
	}
	want := r.Next(verdicts)
	for range 20 {
		if diff := cmp.Diff(want, r.Next(verdicts)); diff != "" {
			t.Fatalf("-first +later\n%s", diff)
		}
	}
}

// Blocks must join up: more commits than one block has columns.
func TestWeightsOverBlocks(t *testing.T) {
	g := kernelShaped(9000)
	r := g.candidateRange()
	c := r.candidates(nil)
	got := c.weights()
	for i := 0; i < len(g); i += 331 {
		want := 0
		for _, m := range r.ancestors(int32(i)) {
			if m {
				want++
			}
		}
		if got[i] != want {
			t.Errorf("weight of c%d: %d, want %d", i, got[i], want)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, n := range []int{16_000, 136_000} {
		r := kernelShaped(n).candidateRange()
		skips := map[string]bisect.Verdict{}
		for i := n / 2; i < n/2+10; i++ {
			skips[r.commits[i].ID] = bisect.Skip
		}
		for name, verdicts := range map[string]map[string]bisect.Verdict{"plain": nil, "skips": skips} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					r.Next(verdicts)
				}
			})
		}
	}
}

// BenchmarkOpen reads a range of the size of a kernel release from a packed
// repository.
func BenchmarkOpen(b *testing.B) {
	g := kernelShaped(16_000)
	dir := b.TempDir()
	ids := g.fill(b, dir)
	gitIn(b, dir, "", "gc", "--quiet")
	for b.Loop() {
		r := mustOpen(b, dir, []string{ids[0]}, ids[len(ids)-1])
		if r.Len() != len(g)-1 {
			b.Fatalf("%d candidates", r.Len())
		}
	}
}
