// Package kbuild turns a commit into a bootable kernel. It keeps one native
// git work tree and one O= directory per (compiler, config), so that a step
// of a walk recompiles only what changed, and stores what it built by content.
package kbuild

import (
	"context"
	"time"
)

// Spec says what to build. Everything that can change the image is in it.
type Spec struct {
	Commit    string   // full id
	Tree      string   // full id of the commit's tree: the cache is keyed by it
	Fragments []string // names of embedded config fragments, in order
	Compiler  string   // "gcc"
}

// Kernel is a built kernel in the store. Paths are absolute and stay valid
// until the store evicts the kernel.
type Kernel struct {
	Key       string        `json:"key"` // of the store: hash of tree, config input, toolchain, make variables
	Tree      string        `json:"tree"`
	Image     string        `json:"image"` // bzImage
	SystemMap string        `json:"system_map"`
	Modules   string        `json:"modules,omitempty"` // lib/modules/RELEASE; empty where all is built in
	Config    string        `json:"config"`            // the final .config
	Log       string        `json:"log"`               // build log, compressed no further
	Release   string        `json:"release"`
	Compiler  string        `json:"compiler"`   // first line of the compiler's --version
	Signature string        `json:"signature"`  // over the allocated sections of vmlinux
	Wanted    []string      `json:"wanted"`     // optional symbols that the final config lacks
	Objects   int           `json:"objects"`    // objects compiled for this build
	CacheHits int           `json:"cache_hits"` // of those, served by ccache
	Elapsed   time.Duration `json:"elapsed"`    // of the build; what it was when first built
	Reused    bool          `json:"-"`          // found in the store, nothing was built
}

// Builder builds kernels.
type Builder interface {
	// Key returns the store's key of the kernel that Build would make now:
	// whatever can change the image is in it, the toolchain too. Errors are
	// those of Build that need no build.
	Key(ctx context.Context, spec Spec) (string, error)
	// Build returns the kernel for spec. A commit that does not build, or
	// whose configuration lacks a required symbol, is blame.Kernel with the
	// first error line; everything else is blame.Infrastructure or
	// blame.User.
	Build(ctx context.Context, spec Spec) (Kernel, error)
}
