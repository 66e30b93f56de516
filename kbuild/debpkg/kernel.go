package debpkg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"bisectd/blame"
)

// Image is a packaged kernel.
type Image struct {
	Package string // that has the image in it
	Version string // of that package
	Vmlinuz string // absolute path
	Release string // as uname -r says
	// ModulesDir has kernel/ and modules.builtin in it. It is empty when the
	// packages have no modules or the archive no longer has them, as happens
	// to kernels that were superseded. Debian's kernels for virtual machines
	// have the drivers of a guest built in from 6.18 on.
	ModulesDir string
}

var (
	// Where the image is: Debian up to 6.18 has it in /boot, newer ones
	// beside the modules.
	bootImage   = regexp.MustCompile(`^boot/vmlinuz-(.+)$`)
	moduleImage = regexp.MustCompile(`^(?:usr/)?lib/modules/([^/]+)/vmlinuz$`)
	modules     = regexp.MustCompile(`^((?:usr/)?lib/modules/([^/]+))/kernel/`)
	builtin     = regexp.MustCompile(`^(?:usr/)?lib/modules/([^/]+)/modules\.builtin$`)

	// What the parts of a kernel are called: meta packages and images depend
	// on the one with the files.
	parts = regexp.MustCompile(`^linux-(?:(?:image|binary|modules)-|base-[0-9])`)
	// The parts without which there still is a kernel.
	extras = regexp.MustCompile(`^linux-(?:modules|base)-`)
)

// Kernel returns a packaged kernel, fetched below cacheDir. Which says:
//
//   - a version such as "6.12" or "6.12.118", or Newest: the highest packaged
//     release that it is or begins, in the flavour for virtual machines, from
//     any of the suites since Debian 11;
//   - an image package, or a meta package such as linux-image-cloud-amd64 that
//     stands for one at present: from the host's own sources, or from the other
//     suites when those lack it.
//
// What leads to no kernel is blame.User.
func Kernel(ctx context.Context, cacheDir, which string) (Image, error) {
	if isVersion(which) {
		a, err := allSuites(ctx, filepath.Join(cacheDir, stateDir))
		if err != nil {
			return Image{}, err
		}
		all, err := a.kernels(ctx)
		if err != nil {
			return Image{}, err
		}
		r, ok := choose(all, which)
		if !ok {
			return Image{}, blame.Errorf(blame.User, "no suite of the mirror has a kernel %s", which)
		}
		return a.kernel(ctx, cacheDir, r.pkg)
	}
	image, err := archive{}.kernel(ctx, cacheDir, which)
	if err == nil || blame.Of(err) == blame.User || ctx.Err() != nil {
		return image, err
	}
	a, other := allSuites(ctx, filepath.Join(cacheDir, stateDir))
	if other != nil {
		return Image{}, errors.Join(err, other)
	}
	return a.kernel(ctx, cacheDir, which)
}

// stateDir holds apt's state for the other suites. No package has such a name.
const stateDir = ".apt"

// kernel returns the kernel that the package leads to.
func (a archive) kernel(ctx context.Context, cacheDir, name string) (Image, error) {
	packages, err := closure(ctx, name, func(name string) (Package, error) { return a.fetch(ctx, cacheDir, name) })
	if err != nil {
		return Image{}, err
	}
	image, list, ok := find(packages)
	if !ok {
		return Image{}, blame.Errorf(blame.User, "Debian package %s: there is no kernel in it", name)
	}
	return image, complete(image, list)
}

// complete puts the list of what is built in beside the modules, where the
// kernel's own installation has it and newer packages do not.
func complete(image Image, list string) error {
	if image.ModulesDir == "" || list == "" || filepath.Dir(list) == image.ModulesDir {
		return nil
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	_, err = write(filepath.Join(image.ModulesDir, filepath.Base(list)), string(text))
	return err
}

// closure fetches the package and the parts of a kernel it depends on, until
// there is an image with its modules and the list of what is built in.
func closure(ctx context.Context, name string, fetch func(string) (Package, error)) ([]Package, error) {
	var packages []Package
	seen := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		p, err := fetch(queue[0])
		if errors.Is(err, errUnknown) && extras.MatchString(queue[0]) {
			continue
		}
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
		if image, list, ok := find(packages); ok && image.ModulesDir != "" && list != "" {
			break
		}
		for _, d := range p.Depends {
			if parts.MatchString(d) && !seen[d] {
				seen[d] = true
				queue = append(queue, d)
			}
		}
	}
	return packages, nil
}

// find returns the first image in the packages with the modules of its release,
// and the file that lists what is built in.
func find(packages []Package) (image Image, list string, ok bool) {
	for _, p := range packages {
		for _, file := range p.Files {
			for _, pattern := range []*regexp.Regexp{bootImage, moduleImage} {
				if m := pattern.FindStringSubmatch(file); m != nil && image.Vmlinuz == "" {
					image = Image{Package: p.Name, Version: p.Version, Release: m[1],
						Vmlinuz: filepath.Join(p.Dir, file)}
				}
			}
		}
	}
	for _, p := range packages {
		for _, file := range p.Files {
			m := modules.FindStringSubmatch(file)
			if m != nil && m[2] == image.Release && image.ModulesDir == "" {
				image.ModulesDir = filepath.Join(p.Dir, m[1])
			}
			if m := builtin.FindStringSubmatch(file); m != nil && m[1] == image.Release && list == "" {
				list = filepath.Join(p.Dir, file)
			}
		}
	}
	return image, list, image.Vmlinuz != ""
}
