package history

import (
	"context"
	"fmt"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"bisectd/bisect"
	"bisectd/blame"
)

// reader resolves revisions and reads commits. go-git does so in process; it
// does not know partial clones, SHA-256, reftables and other extensions, and
// passes over replaced objects and grafts. Wherever it refuses or could
// differ, native git answers, so that go-git never decides what is an error.
type reader struct {
	git *git
	lib *gogit.Repository // nil: native git alone
}

func newReader(ctx context.Context, g *git) (*reader, error) {
	rewritten, err := g.rewritten(ctx)
	if err != nil || rewritten {
		return &reader{git: g}, err
	}
	lib, err := gogit.PlainOpenWithOptions(g.dir, &gogit.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return &reader{git: g}, nil //nolint:nilerr // native git has opened it
	}
	return &reader{git: g, lib: lib}, nil
}

// resolve returns the id of the commit that rev names. end is "good" or
// "bad", for the error.
func (r *reader) resolve(ctx context.Context, end, rev string) (string, error) {
	if id, ok := r.name(rev); ok {
		return id, nil
	}
	id, why, err := r.git.resolve(ctx, rev)
	if err != nil || id != "" {
		return id, err
	}
	detail := ""
	if strings.Contains(why, "ambiguous") {
		detail = " (" + strings.TrimPrefix(why, "error: ") + ")"
	}
	shallow, err := r.git.shallow(ctx)
	if err == nil && len(shallow) > 0 {
		detail += " in this shallow clone"
	}
	return "", blame.Errorf(blame.User, "%s revision %q names no commit of %s%s: "+
		"check the spelling, or fetch it", end, rev, r.git.dir, detail)
}

// name resolves full ids and names of references by go-git, in the order of
// gitrevisions(7). Abbreviated ids and operators are left to git: go-git
// takes the first of several matches and prefers ids to names.
func (r *reader) name(rev string) (string, bool) {
	if r.lib == nil {
		return "", false
	}
	if isID(rev) && len(rev) == len(plumbing.ZeroHash.String()) {
		return r.peel(plumbing.NewHash(rev))
	}
	for _, rule := range plumbing.RefRevParseRules {
		name := plumbing.ReferenceName(fmt.Sprintf(rule, rev))
		if name != plumbing.HEAD && !strings.HasPrefix(name.String(), "refs/") || name.Validate() != nil {
			continue
		}
		if ref, err := r.lib.Reference(name, true); err == nil {
			return r.peel(ref.Hash())
		}
	}
	return "", false
}

// peel follows annotated tags to the commit.
func (r *reader) peel(h plumbing.Hash) (string, bool) {
	for {
		tag, err := r.lib.TagObject(h)
		if err != nil {
			break
		}
		h = tag.Target
	}
	_, err := r.lib.CommitObject(h)
	return h.String(), err == nil
}

// commits reads metadata in the order of ids, without the parents: those are
// rev-list's to tell.
func (r *reader) commits(ctx context.Context, ids []string) ([]bisect.Commit, error) {
	if r.lib == nil {
		return r.git.commits(ctx, ids)
	}
	commits := make([]bisect.Commit, len(ids))
	for i, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c, err := r.lib.CommitObject(plumbing.NewHash(id))
		if err != nil || !strings.EqualFold(string(c.Encoding), "utf-8") {
			return r.git.commits(ctx, ids)
		}
		commits[i] = bisect.Commit{
			ID: id, Tree: c.TreeHash.String(), Subject: subject(c.Message),
			Author: author(c.Author.Name, c.Author.Email), Date: c.Author.When.UTC(),
		}
	}
	return commits, nil
}

// subject joins the lines of a message's first paragraph, as git does.
func subject(message string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimLeft(message, "\n")) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" {
			break
		}
		lines = append(lines, line)
	}
	return clean(strings.Join(lines, " "))
}
