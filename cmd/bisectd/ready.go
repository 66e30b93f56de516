package main

import (
	"context"

	"bisectd/kbuild"
)

// readyKernels is a builder that has some kernels at hand, by commit, and
// leaves the others to the builder of a repository.
type readyKernels struct {
	kernels map[string]kbuild.Kernel
	others  kbuild.Builder
}

// Key returns the kernel's key.
func (r readyKernels) Key(ctx context.Context, spec kbuild.Spec) (string, error) {
	if k, ok := r.kernels[spec.Commit]; ok {
		return k.Key, nil
	}
	return r.others.Key(ctx, spec)
}

// Build returns the kernel, as it is or built.
func (r readyKernels) Build(ctx context.Context, spec kbuild.Spec) (kbuild.Kernel, error) {
	if k, ok := r.kernels[spec.Commit]; ok {
		return k, nil
	}
	return r.others.Build(ctx, spec)
}
