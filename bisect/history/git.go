package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bisectd/bisect"
	"bisectd/blame"
)

// patience bounds one git command. Listing all 1.3 million commits of a
// kernel takes 4 s from a warm cache; the rest is for slow disks.
const patience = 10 * time.Minute

// git runs native git in one repository.
type git struct {
	program string
	dir     string // absolute path of the work tree's top or of the git directory
	env     []string
}

// node is a commit with all its parents, as rev-list prints it.
type node struct {
	id      string
	parents []string
}

// openGit finds git and the repository at path. Parent directories are not
// searched: a repository that happens to be above is not the one meant.
func openGit(ctx context.Context, path string) (*git, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, blame.Errorf(blame.User, "git is not installed or not in PATH: install the package git")
	}
	dir, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", path, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, blame.Errorf(blame.User, "repository %s: no such directory", path)
	}
	g := &git{program: program, dir: dir, env: environment(filepath.Dir(dir))}
	_, err = g.run(ctx, "", "rev-parse", "--git-dir")
	var failed *exec.ExitError
	switch {
	case err == nil:
		return g, nil
	case !errors.As(err, &failed):
		return nil, err
	case strings.Contains(err.Error(), "not a git repository"):
		return nil, blame.Errorf(blame.User, "%s is no git repository: "+
			"give the top directory of a clone of the kernel", path)
	}
	return nil, blame.Errorf(blame.User, "repository %s cannot be used: %w", path, err) // e.g. owned by somebody else
}

// environment is the process's own without the variables by which git would
// look at another repository (git rev-parse --local-env-vars).
func environment(ceiling string) []string {
	elsewhere := []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
		"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(elsewhere, name)
	})
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_CEILING_DIRECTORIES="+ceiling)
}

// run executes git and returns its standard output. The error wraps
// exec.ExitError when git ran and refused, and carries git's first line.
func (g *git) run(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, g.program, append([]string{"-C", g.dir}, args...)...)
	cmd.Env = g.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	// A partial clone's git has children that fetch: they must go with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	message, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	return nil, fmt.Errorf("git %s: %w: %s", args[0], err, message)
}

// resolve returns the id of the commit that rev names. When there is none or
// rev is ambiguous, id is empty and why is git's own sentence.
func (g *git) resolve(ctx context.Context, rev string) (id, why string, err error) {
	// In two steps, since :/text takes all that follows for text.
	for _, suffix := range []string{"", "^{commit}"} {
		out, err := g.run(ctx, "", "rev-parse", "--verify", "--end-of-options", rev+suffix)
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			_, why, _ := strings.Cut(err.Error(), failed.Error()+": ")
			return "", why, nil
		}
		if err != nil {
			return "", "", err
		}
		rev = string(bytes.TrimSpace(out))
	}
	if !isID(rev) {
		return "", "", fmt.Errorf("git rev-parse: unexpected output %.80q", rev)
	}
	return rev, "", nil
}

// rewritten tells whether git shows other commits than are stored, by
// git-replace(1) or grafts.
func (g *git) rewritten(ctx context.Context) (bool, error) {
	out, err := g.run(ctx, "", "for-each-ref", "--count=1", "refs/replace/")
	if err != nil || len(out) > 0 {
		return len(out) > 0, err
	}
	grafts, err := g.file(ctx, "info/grafts")
	return len(grafts) > 0, err
}

// revList lists what bad reaches and good does not, children before parents.
func (g *git) revList(ctx context.Context, bad string, good []string) ([]node, error) {
	args := []string{"rev-list", "--topo-order", "--parents", bad}
	for _, id := range good {
		args = append(args, "^"+id)
	}
	out, err := g.run(ctx, "", args...)
	if err != nil {
		return nil, err
	}
	return parseRevList(out)
}

// parseRevList reads lines of "ID PARENT...", every commit before its parents.
func parseRevList(out []byte) ([]node, error) {
	var nodes []node
	listed := map[string]bool{}
	for line := range bytes.Lines(out) {
		ids := strings.Split(strings.TrimSuffix(string(line), "\n"), " ")
		for i, id := range ids {
			if !isID(id) {
				return nil, fmt.Errorf("git rev-list: line %d: unexpected %.80q", len(nodes)+1, line)
			}
			if listed[id] {
				return nil, fmt.Errorf("git rev-list: line %d: %s stands above a child of it", len(nodes)+1, id)
			}
			listed[ids[0]] = listed[ids[0]] || i == 0
		}
		nodes = append(nodes, node{id: ids[0], parents: ids[1:]})
	}
	if len(nodes) == 0 {
		return nil, errors.New("git rev-list: no commits")
	}
	return nodes, nil
}

// mergeBases lists the best common ancestors of two commits; with criss-cross
// merges there are several, without common history none.
func (g *git) mergeBases(ctx context.Context, a, b string) ([]string, error) {
	out, err := g.run(ctx, "", "merge-base", "--all", a, b)
	if err != nil && strings.HasSuffix(err.Error(), "exit status 1: ") {
		return nil, nil // git-merge-base(1) when there is none; a missing object gives the same status and a message
	}
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// shallow lists the commits at which the history of a shallow clone ends;
// none for a complete one.
func (g *git) shallow(ctx context.Context) ([]string, error) {
	data, err := g.file(ctx, "shallow")
	return strings.Fields(string(data)), err
}

// file reads a file of the git directory, the common one where work trees
// share it. A file that does not exist is empty.
func (g *git) file(ctx context.Context, name string) ([]byte, error) {
	out, err := g.run(ctx, "", "rev-parse", "--git-path", name)
	if err != nil {
		return nil, err
	}
	path := strings.TrimSuffix(string(out), "\n")
	if !filepath.IsAbs(path) {
		path = filepath.Join(g.dir, path)
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("git directory: %w", err)
	}
	return data, nil
}

// commitFormat gives one line of NUL-separated fields after rev-list's own
// "commit ID" line: tree, author's name, address, date and subject. The
// subject comes last as it may hold anything but a line break.
const commitFormat = "--format=%T%x00%an%x00%ae%x00%at%x00%s"

// commits reads the metadata of the commits ids, in their order, without the
// parents.
func (g *git) commits(ctx context.Context, ids []string) ([]bisect.Commit, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	stdin := strings.Join(ids, "\n") + "\n"
	out, err := g.run(ctx, stdin, "rev-list", "--no-walk=unsorted", "--encoding=UTF-8", commitFormat, "--stdin")
	if err != nil {
		return nil, err
	}
	commits, err := parseCommits(out)
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(commits, ids, func(c bisect.Commit, id string) bool { return c.ID == id }) {
		return nil, fmt.Errorf("git rev-list: %d commits asked for, %d others came back", len(ids), len(commits))
	}
	return commits, nil
}

// parseCommits reads what commitFormat writes.
func parseCommits(out []byte) ([]bisect.Commit, error) {
	var commits []bisect.Commit
	for rest := string(out); rest != ""; {
		var head, line string
		head, rest, _ = strings.Cut(rest, "\n")
		line, rest, _ = strings.Cut(rest, "\n")
		id, ok := strings.CutPrefix(head, "commit ")
		f := strings.SplitN(line, "\x00", 5)
		if !ok || !isID(id) || len(f) != 5 || !isID(f[0]) {
			return nil, fmt.Errorf("git rev-list: unexpected commit %.80q %.80q", head, line)
		}
		at, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil && f[3] != "" { // git prints none for a malformed author line
			return nil, fmt.Errorf("git rev-list: commit %s: date: %w", id, err)
		}
		commits = append(commits, bisect.Commit{
			ID: id, Tree: f[0], Author: author(f[1], f[2]), Date: time.Unix(at, 0).UTC(), Subject: clean(f[4]),
		})
	}
	return commits, nil
}

func author(name, address string) string { return clean(name + " <" + address + ">") }

// clean makes text printable: the kernel has names in undeclared Latin-1.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// isID tells whether s is a full object id, SHA-1 or SHA-256.
func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
