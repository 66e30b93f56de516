// Package history knows the commits between two revisions of a git
// repository and which of them to test next. It implements bisect.Range.
//
// Native git lists the range and is the authority on everything; go-git reads
// names and commits where it can (see reader).
package history

import (
	"context"
	"slices"
	"strings"

	"bisectd/bisect"
	"bisectd/blame"
)

// Range is the set of commits that the bad revision reaches and the good ones
// do not. It is immutable and safe for concurrent use.
type Range struct {
	good    []bisect.Commit
	commits []bisect.Commit // the candidates, parents first; Bad is the last
	parents [][]int32       // of commits[i], those that are candidates
	index   map[string]int32
	// outside holds the good revisions and the parents of candidates that
	// good revisions reach: known to be old without a test.
	outside map[string]bisect.Commit
}

// Open reads the range between good and bad, revisions in any form that
// gitrevisions(7) knows, of the repository at repo: the top of a work tree
// (linked ones too) or a git directory.
//
// A range that cannot be walked is blame.User with one line on how to mend
// it: no repository, no such revision, ends equal, swapped or on different
// branches, a shallow clone that ends inside the range, git not installed.
// Whatever else git reports is blame.Infrastructure.
func Open(ctx context.Context, repo string, good []string, bad string) (*Range, error) {
	g, err := openGit(ctx, repo)
	if err != nil {
		return nil, err
	}
	src, err := newReader(ctx, g)
	if err != nil {
		return nil, err
	}
	e, err := resolveEnds(ctx, src, good, bad)
	if err != nil {
		return nil, err
	}
	if err := e.check(ctx, g); err != nil {
		return nil, err
	}
	nodes, err := g.revList(ctx, e.badID, e.goodIDs)
	if err != nil {
		return nil, err
	}
	if err := checkShallow(ctx, g, nodes); err != nil {
		return nil, err
	}
	return load(ctx, src, nodes, e.goodIDs)
}

// New returns the range of commits, parents first and the bad one last, which
// the good ones do not reach. A parent that is not among them is unknown to
// the range.
func New(good, commits []bisect.Commit) *Range {
	r := &Range{
		good:    good,
		commits: commits,
		parents: make([][]int32, len(commits)),
		index:   make(map[string]int32, len(commits)),
		outside: map[string]bisect.Commit{},
	}
	for i, c := range commits {
		r.index[c.ID] = int32(i)
		for _, p := range c.Parents {
			if k, ok := r.index[p]; ok {
				r.parents[i] = append(r.parents[i], k)
			}
		}
	}
	for _, c := range good {
		r.outside[c.ID] = c
	}
	return r
}

// load reads the metadata of the range's commits. It is read whole and at
// once: a walk that has begun then needs the repository for nothing.
func load(ctx context.Context, src *reader, nodes []node, goodIDs []string) (*Range, error) {
	slices.Reverse(nodes) // rev-list prints children first
	ids := make([]string, len(nodes))
	inside := make(map[string]bool, len(nodes))
	for i, n := range nodes {
		ids[i], inside[n.id] = n.id, true
	}
	known := slices.Clone(goodIDs)
	for _, n := range nodes {
		for _, p := range n.parents {
			if !inside[p] {
				known = append(known, p)
			}
		}
	}
	slices.Sort(known)

	commits, err := src.commits(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, n := range nodes {
		if len(n.parents) > 0 {
			commits[i].Parents = n.parents
		}
	}
	outside, err := src.commits(ctx, slices.Compact(known))
	if err != nil {
		return nil, err
	}
	r := New(nil, commits)
	for _, c := range outside {
		r.outside[c.ID] = c
	}
	for _, id := range goodIDs {
		r.good = append(r.good, r.outside[id])
	}
	return r, nil
}

// Good returns the good revisions' commits in the order given to Open,
// without repetitions.
func (r *Range) Good() []bisect.Commit { return slices.Clone(r.good) }

// Bad returns the bad revision's commit.
func (r *Range) Bad() bisect.Commit { return r.commits[len(r.commits)-1] }

// Len returns the number of candidates, Bad included.
func (r *Range) Len() int { return len(r.commits) }

// Commit returns a candidate, a good revision, or a parent of a candidate.
func (r *Range) Commit(id string) (bisect.Commit, bool) {
	if i, ok := r.index[id]; ok {
		return r.commits[i], true
	}
	c, ok := r.outside[id]
	return c, ok
}

// ends are the resolved revisions, beside the words that the user chose.
type ends struct {
	good, goodIDs []string // one to one, ids unique
	bad, badID    string
}

func resolveEnds(ctx context.Context, src *reader, good []string, bad string) (ends, error) {
	e := ends{bad: bad}
	if len(good) == 0 {
		return ends{}, blame.Errorf(blame.User, "no good revision given: name one that shows the old result")
	}
	var err error
	if e.badID, err = src.resolve(ctx, "bad", bad); err != nil {
		return ends{}, err
	}
	for _, rev := range good {
		id, err := src.resolve(ctx, "good", rev)
		if err != nil {
			return ends{}, err
		}
		if !slices.Contains(e.goodIDs, id) {
			e.good, e.goodIDs = append(e.good, rev), append(e.goodIDs, id)
		}
	}
	return e, nil
}

// check refuses ends between which there is nothing to walk.
func (e ends) check(ctx context.Context, g *git) error {
	for i, id := range e.goodIDs {
		if err := e.checkGood(ctx, g, e.good[i], id); err != nil {
			return err
		}
	}
	return nil
}

func (e ends) checkGood(ctx context.Context, g *git, rev, id string) error {
	if id == e.badID {
		return blame.Errorf(blame.User, "good %s and bad %s are the same commit %s: name two that differ",
			rev, e.bad, short(id))
	}
	bases, err := g.mergeBases(ctx, id, e.badID)
	switch {
	case err != nil:
		return err
	case slices.Contains(bases, id):
		return nil
	case slices.Contains(bases, e.badID):
		return blame.Errorf(blame.User, "good %s is newer than bad %s: the two look swapped; "+
			"use %s as good: and %s as bad:", rev, e.bad, e.bad, rev)
	}
	shallow, err := g.shallow(ctx)
	switch {
	case err != nil:
		return err
	case len(shallow) > 0:
		return blame.Errorf(blame.User, "good %s is no ancestor of bad %s in this shallow clone: "+
			"complete it with: git -C %s fetch --unshallow", rev, e.bad, g.dir)
	case len(bases) == 0:
		return blame.Errorf(blame.User, "good %s and bad %s have no common history: name two of the same tree",
			rev, e.bad)
	case len(bases) == 1:
		return blame.Errorf(blame.User, "good %s is no ancestor of bad %s: test their merge base first, "+
			"and if its result is the old one use it as good: %s", rev, e.bad, bases[0])
	}
	return blame.Errorf(blame.User, "good %s is no ancestor of bad %s: test their %d merge bases first, "+
		"and if the results are the old one use them as good: [%s]", rev, e.bad, len(bases), strings.Join(bases, ", "))
}

// checkShallow refuses a range in which a shallow clone's history ends: the
// commits beyond are candidates as well.
func checkShallow(ctx context.Context, g *git, nodes []node) error {
	cut, err := g.shallow(ctx)
	if err != nil || len(cut) == 0 {
		return err
	}
	for _, n := range nodes {
		if slices.Contains(cut, n.id) {
			return blame.Errorf(blame.User, "the history of this shallow clone ends inside the range, at %s: "+
				"complete it with: git -C %s fetch --unshallow", short(n.id), g.dir)
		}
	}
	return nil
}

// short abbreviates an id as bisect.Commit.Short does.
func short(id string) string { return bisect.Commit{ID: id}.Short() }
