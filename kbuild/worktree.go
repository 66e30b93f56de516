package kbuild

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bisectd/blame"
	"bisectd/kbuild/internal/proc"
)

// gitOptions keep the user's hooks and background jobs out, and make a
// checkout independent of the repository's own settings. core.sparseCheckout
// is copied into new work trees: git-worktree(1), git 2.36.
var gitOptions = []string{
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.fsmonitor=false",
	"-c", "core.sparseCheckout=false",
	"-c", "core.autocrlf=false",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "advice.detachedHead=false",
}

// worktree is a linked work tree of the user's repository. The user's own
// checkout, index and branches are not touched: what the repository sees of it
// is an entry under .git/worktrees.
type worktree struct {
	repo string // the common git directory, absolute
	dir  string
}

// openRepo returns the common git directory of the repository, bare or not,
// at path.
func openRepo(ctx context.Context, path string) (string, error) {
	out, err := proc.Command{Dir: path, Env: gitEnvironment()}.
		Text(ctx, "git", "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return "", blame.Errorf(blame.User, "repository %s: %w", path, err)
	}
	dir, err := filepath.EvalSymlinks(strings.TrimSpace(out))
	if err != nil {
		return "", fmt.Errorf("kbuild: repository %s: %w", path, err)
	}
	return dir, nil
}

func gitEnvironment() []string {
	return proc.Environment("GIT_TERMINAL_PROMPT=0")
}

// git runs git in dir. The lock, when there is one, is inherited.
func (w worktree) git(ctx context.Context, held *os.File, dir string, args ...string) (string, error) {
	args = append(append([]string{}, gitOptions...), args...)
	return proc.Command{Dir: dir, Env: gitEnvironment(), Held: held}.Text(ctx, "git", args...)
}

// tree returns the id of the commit's tree.
func (w worktree) tree(ctx context.Context, commit string) (string, error) {
	out, err := w.git(ctx, nil, w.repo, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
	if err != nil {
		return "", blame.Errorf(blame.User, "commit %s: %w", commit, err)
	}
	return strings.TrimSpace(out), nil
}

// checkout makes the work tree hold exactly the files of commit. Files that
// are the same before and after keep their time stamps.
func (w worktree) checkout(ctx context.Context, held *os.File, commit string) error {
	if err := w.ensure(ctx, held, commit); err != nil {
		return err
	}
	if _, err := w.git(ctx, held, w.dir, "checkout", "--quiet", "--detach", "--force", commit); err != nil {
		return fmt.Errorf("kbuild: checkout %s: %w", commit, err)
	}
	// Twice -f: directories with a .git of their own go too.
	if _, err := w.git(ctx, held, w.dir, "clean", "-ffdxq"); err != nil {
		return fmt.Errorf("kbuild: clean work tree: %w", err)
	}
	return nil
}

// ensure makes the work tree exist and be one of the repository's. It is made
// anew when its entry in the repository was pruned, or the repository replaced.
func (w worktree) ensure(ctx context.Context, held *os.File, commit string) error {
	gitDir, err := w.git(ctx, held, w.dir, "rev-parse", "--path-format=absolute", "--git-dir", "--show-toplevel")
	if err == nil && w.owns(gitDir) {
		// A git that was killed leaves its lock. We hold ours, so no other
		// git is at work here.
		dir, _, _ := strings.Cut(gitDir, "\n")
		if err := os.Remove(filepath.Join(dir, "index.lock")); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("kbuild: %w", err)
		}
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := os.RemoveAll(w.dir); err != nil {
		return fmt.Errorf("kbuild: remove stale work tree: %w", err)
	}
	// --force: the entry of a work tree that vanished may still be there.
	if _, err := w.git(ctx, held, w.repo,
		"worktree", "add", "--force", "--detach", "--no-checkout", w.dir, commit); err != nil {
		return fmt.Errorf("kbuild: add work tree: %w", err)
	}
	return nil
}

// owns reports whether git, run in the work tree, found this work tree of this
// repository, and not a repository around it.
func (w worktree) owns(found string) bool {
	gitDir, top, _ := strings.Cut(strings.TrimSpace(found), "\n")
	entries, err := filepath.EvalSymlinks(filepath.Join(w.repo, "worktrees"))
	if err != nil || filepath.Dir(gitDir) != entries {
		return false
	}
	dir, err := filepath.EvalSymlinks(w.dir)
	return err == nil && top == dir
}

// changed returns the paths that differ between two trees.
func (w worktree) changed(ctx context.Context, from, to string) ([]string, error) {
	out, err := w.git(ctx, nil, w.repo, "diff-tree", "-r", "-z", "--name-only", from, to)
	if err != nil {
		return nil, fmt.Errorf("kbuild: %w", err)
	}
	return strings.FieldsFunc(out, func(r rune) bool { return r == 0 }), nil
}
