package kbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"bisectd/blame"
	"bisectd/kbuild/kconfig"
)

// Options say what to build from, and where to keep what is built.
type Options struct {
	Repo      string // of the user: a checkout, a linked work tree or a bare repository
	CacheDir  string // work trees, objects, ccache and store; made when absent
	Fragments fs.FS  // with NAME.config at its root for each name in Spec.Fragments

	Jobs        int           // of make; 0: two more than there are CPUs
	StoreLimit  int64         // bytes of built kernels; 0: 20 GiB
	CCacheLimit int64         // bytes of ccache; 0: 10 GiB
	LockWait    time.Duration // for another process building in the same work tree; 0: 15 minutes

	// Progress, if set, is called for each object compiled, from another
	// goroutine than Build's. expected is 0 when unknown: it is the number
	// of the last build from scratch, in a build from scratch.
	Progress func(done, expected int)
}

const gib = 1 << 30

// builderVersion is part of every key. Raise it when the way kernels are built
// changes in a way that can change the image.
const builderVersion = "2"

// keptObjects is how many O= directories, about 500 MB each, are kept for a
// repository.
const keptObjects = 4

// Tree builds the kernels of one repository. It is safe for concurrent use,
// also by several processes; builds of one repository wait for each other.
type Tree struct {
	options Options
	slot    string // directory of everything about the repository
	work    worktree
	store   *store
}

var _ Builder = (*Tree)(nil)

// New opens the repository and the cache. A host that cannot build kernels and
// a repository that is none are blame.User.
func New(ctx context.Context, o Options) (*Tree, error) {
	if err := Check(ctx); err != nil {
		return nil, err
	}
	if o.Jobs <= 0 {
		o.Jobs = runtime.NumCPU() + 2 // some always wait for the disk or for another
	}
	if o.StoreLimit <= 0 {
		o.StoreLimit = 20 * gib
	}
	if o.CCacheLimit <= 0 {
		o.CCacheLimit = 10 * gib
	}
	if o.LockWait <= 0 {
		o.LockWait = 15 * time.Minute
	}
	repo, err := openRepo(ctx, o.Repo)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		return nil, blame.Errorf(blame.User, "cache directory: %w", err)
	}
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return nil, fmt.Errorf("kbuild: %w", err)
	}
	if strings.ContainsAny(o.CacheDir, " \t:") { // make's Makefiles refuse them
		return nil, blame.Errorf(blame.User, "cache directory %q: kernels cannot be built in a path with spaces or colons",
			o.CacheDir)
	}
	slot := filepath.Join(o.CacheDir, "trees", digest(repo)[:16])
	if err := os.MkdirAll(slot, 0o755); err != nil {
		return nil, fmt.Errorf("kbuild: %w", err)
	}
	s, err := openStore(filepath.Join(o.CacheDir, "store"), o.StoreLimit)
	if err != nil {
		return nil, err
	}
	return &Tree{options: o, slot: slot, work: worktree{repo: repo, dir: filepath.Join(slot, "src")}, store: s}, nil
}

// build is one call of Build.
type build struct {
	tree    *Tree
	spec    Spec
	request *kconfig.Config
	tools   toolchain
	cc      string // make's CC
	key     string
	objects objects
	held    *os.File
}

// Build implements Builder. A failure of the kernel's comes with a Kernel of
// which Key, Tree, Compiler, Log and Elapsed are set; that log is kept until
// fifty later builds of the repository have failed.
func (t *Tree) Build(ctx context.Context, spec Spec) (Kernel, error) {
	b, err := t.prepare(ctx, spec)
	if err != nil {
		return Kernel{}, err
	}
	if k, ok, err := t.load(b.key); ok || err != nil {
		return k, err
	}
	if b.held, err = lock(ctx, filepath.Join(t.slot, "lock"), t.options.LockWait); err != nil {
		return Kernel{}, err
	}
	defer b.held.Close()
	// Who held the lock may have built the same.
	if k, ok, err := t.load(b.key); ok || err != nil {
		return k, err
	}
	return b.run(ctx)
}

// Key implements Builder.
func (t *Tree) Key(ctx context.Context, spec Spec) (string, error) {
	b, err := t.prepare(ctx, spec)
	if err != nil {
		return "", err
	}
	return b.key, nil
}

func (t *Tree) load(key string) (Kernel, bool, error) {
	k, ok, err := t.store.load(key)
	k.Reused = ok
	return k, ok, err
}

// prepare finds out what the kernel depends on, and so its key.
func (t *Tree) prepare(ctx context.Context, spec Spec) (*build, error) {
	tree, err := t.work.tree(ctx, spec.Commit)
	if err != nil {
		return nil, err
	}
	if spec.Tree != "" && spec.Tree != tree {
		return nil, blame.Errorf(blame.User, "commit %s has the tree %s, not %s", spec.Commit, tree, spec.Tree)
	}
	spec.Tree = tree
	b := &build{tree: t, spec: spec}
	if b.request, err = request(t.options.Fragments, spec.Fragments); err != nil {
		return nil, err
	}
	if b.tools, err = findToolchain(ctx, spec.Compiler); err != nil {
		return nil, err
	}
	flavour := fmt.Sprintf("%s\n%s%s%q\n", builderVersion, b.tools.id(), b.request.Text(), variables(b.tools.compiler))
	b.key = digest(tree + "\n" + flavour)
	if b.cc = b.tools.compiler; b.tools.ccache {
		if b.cc, err = ccacheWrapper(t.options.CacheDir, b.tools.compiler); err != nil {
			return nil, fmt.Errorf("kbuild: %w", err)
		}
	}
	b.objects = objects{filepath.Join(t.slot, "objects", digest(flavour + b.cc)[:16])}
	return b, nil
}

// dropObjects removes the O= directories used longest ago, beyond those kept.
// The caller holds the lock.
func (t *Tree) dropObjects() error {
	dir := filepath.Join(t.slot, "objects")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	used := map[string]time.Time{}
	var names []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			names, used[e.Name()] = append(names, e.Name()), info.ModTime()
		}
	}
	slices.SortFunc(names, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, name := range names[min(keptObjects, len(names)):] {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("kbuild: %w", err)
		}
	}
	return nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
