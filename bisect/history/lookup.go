package history

import (
	"context"

	"bisectd/bisect"
)

// Lookup returns the commit that a revision of the repository stands for. The
// errors are those of Open.
func Lookup(ctx context.Context, repo, rev string) (bisect.Commit, error) {
	g, err := openGit(ctx, repo)
	if err != nil {
		return bisect.Commit{}, err
	}
	src, err := newReader(ctx, g)
	if err != nil {
		return bisect.Commit{}, err
	}
	id, err := src.resolve(ctx, "the", rev)
	if err != nil {
		return bisect.Commit{}, err
	}
	commits, err := src.commits(ctx, []string{id})
	if err != nil {
		return bisect.Commit{}, err
	}
	return commits[0], nil
}
