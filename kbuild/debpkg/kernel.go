package debpkg

import (
	"context"
	"path/filepath"
	"regexp"

	"bisectd/blame"
)

// Image is a packaged kernel.
type Image struct {
	Package    string // that has the image in it
	Version    string // of that package
	Vmlinuz    string // absolute path
	Release    string // as uname -r says
	ModulesDir string // with kernel/ in it; empty when the packages have no modules
}

var (
	// Where the image is: Debian up to 6.18 has it in /boot, newer ones
	// beside the modules.
	bootImage   = regexp.MustCompile(`^boot/vmlinuz-(.+)$`)
	moduleImage = regexp.MustCompile(`^(?:usr/)?lib/modules/([^/]+)/vmlinuz$`)
	modules     = regexp.MustCompile(`^((?:usr/)?lib/modules/([^/]+))/kernel/`)

	// What the parts of a kernel are called: meta packages and images depend
	// on the one with the files.
	parts = regexp.MustCompile(`^linux-(?:image|binary|modules)-`)
)

// Kernel returns the kernel of an image package, or of the one that a meta
// package such as linux-image-cloud-amd64 stands for at present. A package
// that leads to no kernel is blame.User.
func Kernel(ctx context.Context, cacheDir, name string) (Image, error) {
	packages, err := closure(ctx, name, func(name string) (Package, error) { return Fetch(ctx, cacheDir, name) })
	if err != nil {
		return Image{}, err
	}
	image, ok := find(packages)
	if !ok {
		return Image{}, blame.Errorf(blame.User, "Debian package %s: there is no kernel in it", name)
	}
	return image, nil
}

// closure fetches the package and the parts of a kernel it depends on, until
// there is an image with its modules among them.
func closure(ctx context.Context, name string, fetch func(string) (Package, error)) ([]Package, error) {
	var packages []Package
	seen := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		p, err := fetch(queue[0])
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
		if image, ok := find(packages); ok && image.ModulesDir != "" {
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

// find returns the first image in the packages, with the modules of its
// release.
func find(packages []Package) (Image, bool) {
	var image Image
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
		}
	}
	return image, image.Vmlinuz != ""
}
