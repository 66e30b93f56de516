package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"bisectd/bisect"
	"bisectd/bisect/history"
	"bisectd/blame"
	"bisectd/kbuild"
	"bisectd/kbuild/debpkg"
)

// side is one of the kernels of a comparison. One that needs no build stands
// for a commit, too: the engine knows nothing else.
type side struct {
	commit bisect.Commit
	kernel kbuild.Kernel
	built  bool // already
}

// packaged matches what stands for a packaged kernel. An abbreviated commit id
// has seven digits and more.
var packaged = regexp.MustCompile(`^(linux-image-.+|newest|[0-9]{1,4}(\.[0-9]{1,5})*)$`)

// findSide looks a kernel up: the path of an image, a packaged kernel, or a
// revision of the repository.
func findSide(ctx context.Context, paths *Paths, repo, name, modules string) (side, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.Mode().IsRegular():
		return imageSide(name, modules, name)
	case modules != "":
		return side{}, blame.Errorf(blame.User, "%s is no image file: modules go with one", name)
	case packaged.MatchString(name):
		image, err := debpkg.Kernel(ctx, filepath.Join(paths.Cache, "packages"), name)
		if err != nil {
			return side{}, err
		}
		s, err := imageSide(image.Vmlinuz, image.ModulesDir, fmt.Sprintf("%s %s", image.Package, image.Version))
		s.kernel.Release = image.Release
		return s, err
	case repo == "":
		return side{}, blame.Errorf(blame.User, "%s is neither an image file nor a packaged kernel "+
			"(linux-image-..., 6.12, newest); if it is a revision, give --repo or --job", name)
	}
	commit, err := history.Lookup(ctx, repo, name)
	return side{commit: commit}, err
}

// imageSide is a kernel that is there. Its content names it.
func imageSide(image, modules, what string) (side, error) {
	image, err := filepath.Abs(image)
	if err != nil {
		return side{}, err
	}
	if modules != "" {
		if modules, err = filepath.Abs(modules); err != nil {
			return side{}, err
		}
		if _, err := os.Stat(filepath.Join(modules, "kernel")); err != nil {
			return side{}, blame.Errorf(blame.User, "%s is no lib/modules/RELEASE: %w", modules, err)
		}
	}
	f, err := os.Open(image)
	if err != nil {
		return side{}, blame.Errorf(blame.User, "kernel image: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return side{}, blame.Errorf(blame.Infrastructure, "kernel image: %w", err)
	}
	// As long as an object id, which it stands for.
	id := hex.EncodeToString(sum.Sum(nil))[:40]
	return side{
		commit: bisect.Commit{ID: id, Tree: id, Subject: what},
		kernel: kbuild.Kernel{Key: "image " + id, Tree: id, Image: image, Modules: modules, Signature: id, Reused: true},
		built:  true,
	}, nil
}
