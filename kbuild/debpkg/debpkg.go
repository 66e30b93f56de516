// Package debpkg gets kernels and sources out of Debian packages without
// installing them. Packages come through apt, from the host's own sources or
// from other suites on the same mirror, so apt has verified them against the
// archive's signature.
package debpkg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"bisectd/blame"
	"bisectd/kbuild/internal/proc"
)

// Package is a package whose files can be read.
type Package struct {
	Name    string
	Version string
	Dir     string   // where the files are: "/" when it is installed on this host
	Files   []string // regular files and links, relative to Dir
	Depends []string // names of packages, every alternative
}

// names are the package names that Debian Policy 5.6.7 allows.
var names = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)

// Fetch returns the package: as installed on this host where it is, else
// unpacked below cacheDir, where it stays for the next time. A host without
// apt is blame.User; what apt complains about is blame.Infrastructure.
func Fetch(ctx context.Context, cacheDir, name string) (Package, error) {
	return archive{}.fetch(ctx, cacheDir, name)
}

func (a archive) fetch(ctx context.Context, cacheDir, name string) (Package, error) {
	if !names.MatchString(name) {
		return Package{}, blame.Errorf(blame.User, "%q is not the name of a Debian package", name)
	}
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb", "dpkg-query"} {
		if _, err := exec.LookPath(tool); err != nil {
			return Package{}, blame.Errorf(blame.User, "Debian package %s: this host has no %s", name, tool)
		}
	}
	if p, ok, err := installed(ctx, name); ok || err != nil {
		return p, err
	}
	return a.download(ctx, cacheDir, name)
}

// installed returns the package if it is on this host with all its files. In
// containers, packages are often installed without some.
func installed(ctx context.Context, name string) (Package, bool, error) {
	out, err := output(ctx, "", "dpkg-query", "--show",
		"--showformat", "Status: ${db:Status-Status}\nVersion: ${Version}\nDepends: ${Depends}\n", name)
	if ctx.Err() != nil {
		return Package{}, false, context.Cause(ctx)
	}
	control := parseControl(out)
	if err != nil || control["Status"] != "installed" { // dpkg-query fails for a package it never heard of
		return Package{}, false, nil
	}
	list, err := output(ctx, "", "dpkg-query", "--listfiles", name)
	if err != nil {
		return Package{}, false, err
	}
	p := Package{Name: name, Version: control["Version"], Dir: "/", Depends: parseDepends(control["Depends"])}
	for path := range strings.Lines(list) {
		path = strings.TrimSpace(path)
		info, err := os.Lstat(path)
		if err != nil && !strings.HasPrefix(path, "/usr/share/doc/") {
			return Package{}, false, nil
		}
		if err == nil && !info.IsDir() {
			p.Files = append(p.Files, strings.TrimPrefix(path, "/"))
		}
	}
	return p, true, nil
}

var errUnknown = errors.New("apt knows no version of it")

// download fetches the version that apt would install and unpacks it.
func (a archive) download(ctx context.Context, cacheDir, name string) (Package, error) {
	out, err := a.apt(ctx, "", "apt-cache", "show", "--no-all-versions", name)
	if err != nil {
		return Package{}, fmt.Errorf("debpkg: %s: %w", name, err)
	}
	control := parseControl(out)
	p := Package{Name: name, Version: control["Version"], Depends: parseDepends(control["Depends"])}
	if p.Version == "" {
		return Package{}, fmt.Errorf("debpkg: %s: %w", name, errUnknown)
	}
	p.Dir = filepath.Join(cacheDir, name+"_"+p.Version)
	if _, err := os.Stat(p.Dir); errors.Is(err, fs.ErrNotExist) {
		err = a.unpack(ctx, cacheDir, p)
		if err != nil {
			return Package{}, fmt.Errorf("debpkg: %s: %w", name, err)
		}
	}
	if p.Files, err = files(p.Dir); err != nil {
		return Package{}, fmt.Errorf("debpkg: %s: %w", name, err)
	}
	return p, nil
}

// unpack makes p.Dir, as a whole or not at all.
func (a archive) unpack(ctx context.Context, cacheDir string, p Package) error {
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cacheDir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	// Sandbox::User: apt's own user cannot write to our directory. apt drops
	// to it only when run by root.
	_, err = a.apt(ctx, tmp, "apt-get", "--quiet", "--option", "APT::Sandbox::User=root",
		"download", p.Name+"="+p.Version)
	if err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("apt-get downloaded %d packages instead of one", len(archives))
	}
	root := filepath.Join(tmp, "root")
	if _, err := output(ctx, tmp, "dpkg-deb", "--extract", archives[0], root); err != nil {
		return err
	}
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	err = os.Rename(root, p.Dir)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return nil
	}
	return err
}

func files(dir string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		all = append(all, rel)
		return err
	})
	return all, err
}

// output runs a command of apt's or dpkg's with the user's own environment, in
// which there may be a proxy.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	out, err := proc.Command{Dir: dir, Env: append(os.Environ(), "LC_ALL=C")}.Text(ctx, name, args...)
	return out, err
}

// parseControl reads the first paragraph of a control file, deb822(5), less
// its continuation lines.
func parseControl(text string) map[string]string {
	fields := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.TrimSpace(line) == "" && len(fields) > 0 {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if ok && name != "" && !strings.ContainsAny(name, " \t") {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// parseDepends returns the package names in a Depends field, Debian Policy 7.1:
// "a (= 1), b:any | c [amd64]".
func parseDepends(field string) []string {
	var all []string
	for _, part := range strings.FieldsFunc(field, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(part), " ")
		name, _, _ = strings.Cut(name, "(")
		name, _, _ = strings.Cut(name, ":")
		if names.MatchString(name) {
			all = append(all, name)
		}
	}
	return all
}
