package history

import (
	"math"
	"math/bits"

	"bisectd/bisect"
)

// Next chooses the commit whose test splits the candidates best. A candidate
// is a commit that may be the first new one: an Old verdict removes a commit
// and its ancestors, a New one removes everything but a commit and its
// ancestors. Verdicts that contradict each other are applied all the same;
// when they leave nothing, the step is Done without suspects.
//
// Without skips the choice is git's (git rev-list --bisect-all): the largest
// min(w, n-w), where w of the n candidates are the commit or its ancestors;
// among equals the smallest id. What skips change is said at nearness.
func (r *Range) Next(verdicts map[string]bisect.Verdict) bisect.Step {
	c := r.candidates(verdicts)
	n := c.len()
	if n == 0 {
		return bisect.Step{Done: true}
	}
	weights := c.weights()
	likely := c.nearness()
	best, bestScore := -1, 0.0
	for i, w := range weights {
		// All candidates are ancestors of a commit with w = n: it is new.
		if c.skipped[i] || w == n {
			continue
		}
		score := information(min(w, n-w), n)
		if likely != nil {
			score *= likely[i]
		}
		if score > bestScore || score == bestScore && r.commits[c.at[i]].ID < r.commits[c.at[best]].ID {
			best, bestScore = i, score
		}
	}
	if best < 0 {
		return bisect.Step{Done: true, Left: n, Suspects: c.suspects(r)}
	}
	return bisect.Step{Test: r.commits[c.at[best]], Left: n, Steps: bits.Len(uint(n - 1))}
}

// information is what a test tells that parts n equally likely candidates
// into m and n-m, in bits; it grows with m up to n/2.
func information(m, n int) float64 {
	p := float64(m) / float64(n)
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}

// candidates is the part of a range in which the first new commit still is.
// Positions keep the range's order, parents first.
type candidates struct {
	at      []int32   // position in the range
	parents [][]int32 // positions among the candidates
	skipped []bool
}

func (r *Range) candidates(verdicts map[string]bisect.Verdict) candidates {
	n := len(r.commits)
	out, skipped := make([]bool, n), make([]bool, n)
	for id, v := range verdicts {
		i, ok := r.index[id]
		if !ok {
			continue
		}
		switch v {
		case bisect.Old:
			r.remove(out, r.ancestors(i), true)
		case bisect.New:
			r.remove(out, r.ancestors(i), false)
		case bisect.Skip:
			skipped[i] = true
		case bisect.Unknown:
		}
	}
	c := candidates{}
	position := make([]int32, n)
	for i := range n {
		if out[i] {
			continue
		}
		position[i] = int32(len(c.at))
		var parents []int32
		for _, p := range r.parents[i] {
			if !out[p] {
				parents = append(parents, position[p])
			}
		}
		c.at = append(c.at, int32(i))
		c.parents = append(c.parents, parents)
		c.skipped = append(c.skipped, skipped[i])
	}
	return c
}

// ancestors marks commit i and its ancestors in the range.
func (r *Range) ancestors(i int32) []bool {
	marked := make([]bool, len(r.commits))
	marked[i] = true
	for k := i; k >= 0; k-- {
		if marked[k] {
			for _, p := range r.parents[k] {
				marked[p] = true
			}
		}
	}
	return marked
}

// remove takes out the commits whose mark equals which.
func (r *Range) remove(out, marked []bool, which bool) {
	for i, m := range marked {
		if m == which {
			out[i] = true
		}
	}
}

func (c candidates) len() int { return len(c.at) }

func (c candidates) suspects(r *Range) []bisect.Commit {
	suspects := make([]bisect.Commit, c.len())
	for i, k := range c.at {
		suspects[i] = r.commits[k]
	}
	return suspects
}

// Limits of the bit matrix of weights: blockWords columns of 64 commits are
// counted at a time, fewer when the matrix would exceed blockMemory words.
const (
	blockWords  = 64
	blockMemory = 4 << 20 // 32 MiB
)

// weights counts, for every candidate, the candidates that it reaches, itself
// included. The counts are exact over merges: each commit's set of ancestors
// is the union of its parents' sets. The sets are bit rows, made for one
// block of columns after the other; a row before the block is empty.
func (c candidates) weights() []int {
	n := c.len()
	words := max(1, min(blockWords, blockMemory/n, (n+63)/64))
	rows := make([]uint64, n*words)
	weights := make([]int, n)
	for start := 0; start < n; start += words * 64 {
		for i := start; i < n; i++ {
			row := rows[i*words : (i+1)*words]
			c.unite(row, rows, words, i, start)
			if own := i - start; own < words*64 {
				row[own/64] |= 1 << (own % 64)
			}
			for _, word := range row {
				weights[i] += bits.OnesCount64(word)
			}
		}
	}
	return weights
}

// unite sets row to the union of the rows of i's parents.
func (c candidates) unite(row, rows []uint64, words, i, start int) {
	clear(row)
	for _, p := range c.parents[i] {
		if int(p) < start {
			continue
		}
		for k, word := range rows[int(p)*words : (int(p)+1)*words] {
			row[k] |= word
		}
	}
}

// apart is the prior probability that two skipped commits, one an ancestor of
// the other, are broken for different reasons.
const apart = 0.01

// nearness says how likely a candidate can be tested, given the skips: nil
// without any. What breaks a kernel is broken from one commit until a
// descendant mends it, and how long such a stretch is nobody knows: all orders
// of magnitude up to n are taken as equally likely, so that a stretch around a
// skipped commit ends within d steps with probability
//
//	E(d) = log(1+d) / log(1+n).
//
// A commit d steps from its nearest skipped ancestor or descendant can be
// tested with probability E(d). Between two skipped ones, u steps above the
// one and d below the other, either one stretch covers it or it lies between
// two that end in time; by Bayes' rule it can be tested with probability
//
//	S / (S + 1-E(u+d)), S = apart E(u) E(d).
//
// A skipped commit on another branch says nothing.
//
// The choice maximises the product with the information that the test would
// give. One skip at the middle of 1000 commits so moves the next test some 180
// commits away, at 9 % of its information, and a wide broken stretch is left
// within a few skips.
func (c candidates) nearness() []float64 {
	n := c.len()
	up, down := make([]int, n), make([]int, n) // steps to the nearest skipped one; 0: none
	seen := false
	for i := range n {
		seen = seen || c.skipped[i]
		for _, p := range c.parents[i] {
			up[i] = nearer(up[i], up[p], c.skipped[p])
		}
	}
	if !seen {
		return nil
	}
	for i := n - 1; i >= 0; i-- {
		for _, p := range c.parents[i] {
			down[p] = nearer(down[p], down[i], c.skipped[i])
		}
	}
	likely := make([]float64, n)
	for i := range n {
		likely[i] = testable(up[i], down[i], n)
	}
	return likely
}

// nearer returns the smaller of the distance known so far and the one over a
// neighbour, which is skipped itself or has a distance of its own.
func nearer(known, neighbour int, skipped bool) int {
	over := neighbour + 1
	switch {
	case skipped:
		over = 1
	case neighbour == 0:
		return known
	}
	if known == 0 {
		return over
	}
	return min(known, over)
}

// testable is the probability of nearness; a distance of 0 means none.
func testable(up, down, n int) float64 {
	ends := func(d int) float64 { return math.Log1p(float64(d)) / math.Log1p(float64(n)) }
	if up == 0 && down == 0 {
		return 1
	}
	if up == 0 || down == 0 {
		return ends(up + down)
	}
	two := apart * ends(up) * ends(down)
	return two / (two + max(0, 1-ends(up+down)))
}
