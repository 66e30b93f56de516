package debpkg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bisectd/blame"
)

// archive is what apt looks for packages in. The zero value is the host's own
// configuration.
type archive struct {
	config string // file for apt's --config-file
	// stale is why the lists could not be brought up to date. What they
	// know may still do, and what they lack may be because of it.
	stale error
}

// The suites that are searched beside the host's own, in any order: together
// they have a kernel of every release since 5.10. Experimental is left out, for
// its kernels are release candidates.
var (
	suites = []string{"bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "forky", "sid"}
	fixes  = []string{"bullseye-security", "bookworm-security", "trixie-security"}
)

// Where Debian installs the keys that its archive is signed with. A host
// without the file has them among the keys that apt trusts anyway.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// shelfLife is how long lists of packages are used without asking again. The
// archive removes what was superseded after some days.
const shelfLife = 24 * time.Hour

// allSuites opens the suites above on the mirror that the host's own packages
// come from. Lists and archives of packages stay below dir, so nothing changes
// for the host; its proxies and credentials are used. A host whose sources name
// no mirror of Debian is blame.User.
func allSuites(ctx context.Context, dir string) (archive, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return archive{}, err
	}
	if strings.Contains(dir, `"`) {
		return archive{}, blame.Errorf(blame.User, "apt cannot use a directory with a quotation mark in its name: %s", dir)
	}
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "sources"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return archive{}, err
		}
	}
	targets, err := output(ctx, "", "apt-get", "indextargets",
		"--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return archive{}, fmt.Errorf("debpkg: %w", err)
	}
	sources := sourcesOf(parseMirrors(targets))
	if sources == "" {
		return archive{}, blame.Errorf(blame.User, "apt's sources name no mirror of Debian, or apt-get update never ran")
	}
	a := archive{config: filepath.Join(dir, "apt.conf")}
	changed, err := write(filepath.Join(dir, "sources", "debian.sources"), sources)
	if err != nil {
		return archive{}, err
	}
	if _, err := write(a.config, fmt.Sprintf(configuration, dir)); err != nil {
		return archive{}, err
	}
	return a, a.update(ctx, filepath.Join(dir, "updated"), changed)
}

// configuration gives apt a state of its own in a directory. The hooks of the
// host's update are about the host's state.
const configuration = `Dir::State::Lists "%[1]s/lists";
Dir::Cache "%[1]s/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "";
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "%[1]s/sources";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
APT::Sandbox::User "root";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
`

// write makes a file have the content, and tells whether it had another.
func write(file, content string) (changed bool, err error) {
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, []byte(content)) {
		return false, nil
	}
	return true, os.WriteFile(file, []byte(content), 0o644)
}

// update fetches the lists unless they are fresh, as the file stamp tells. A
// mirror that lacks one of the suites makes apt fail and still fetch the rest:
// that is noted, and an error only where nothing comes of it.
func (a *archive) update(ctx context.Context, stamp string, changed bool) error {
	info, err := os.Stat(stamp)
	if err == nil && time.Since(info.ModTime()) < shelfLife && !changed {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, a.stale = a.apt(ctx, "", "apt-get", "--quiet", "update")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return os.WriteFile(stamp, nil, 0o644)
}

// apt runs one of apt's programs on the archive.
func (a archive) apt(ctx context.Context, dir, program string, args ...string) (string, error) {
	if a.config != "" {
		args = append([]string{"--config-file", a.config}, args...)
	}
	text, err := output(ctx, dir, program, args...)
	if err != nil && a.stale != nil {
		err = fmt.Errorf("%w; and the lists of packages could not be updated: %w", err, a.stale)
	}
	return text, err
}

// mirrors are the addresses of the archive and of its security updates; either
// may be empty.
type mirrors struct{ main, security string }

// parseMirrors reads lines of origin, label and address, as apt knows them from
// the signed release files.
func parseMirrors(text string) mirrors {
	var m mirrors
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 || fields[0] != "Debian" || strings.ContainsAny(fields[2], " \t\n") {
			continue
		}
		switch fields[1] {
		case "Debian":
			m.main = fields[2]
		case "Debian-Security":
			m.security = fields[2]
		}
	}
	return m
}

// sourcesOf writes sources.list(5) in its deb822 form.
func sourcesOf(m mirrors) string {
	var b strings.Builder
	for _, s := range []struct {
		uri    string
		suites []string
	}{{m.main, suites}, {m.security, fixes}} {
		if s.uri == "" {
			continue
		}
		fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nTargets: Packages\n",
			s.uri, strings.Join(s.suites, " "))
		if _, err := os.Stat(keyring); err == nil {
			fmt.Fprintf(&b, "Signed-By: %s\n", keyring)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// flavour is the kernel for virtual machines, Debian's smallest.
const flavour = "cloud-amd64"

// release is a version of an image package.
type release struct{ pkg, version string }

// kernels lists the packaged kernels of the flavour.
func (a archive) kernels(ctx context.Context) ([]release, error) {
	found, err := a.apt(ctx, "", "apt-cache", "search", "--names-only", "^linux-image-[0-9].*-"+flavour+"$")
	if err != nil {
		return nil, fmt.Errorf("debpkg: %w", err)
	}
	args := []string{"madison"}
	for line := range strings.Lines(found) {
		if name, _, _ := strings.Cut(line, " "); names.MatchString(name) {
			args = append(args, name)
		}
	}
	if len(args) == 1 {
		if a.stale != nil {
			return nil, fmt.Errorf("debpkg: %w", a.stale)
		}
		return nil, nil
	}
	table, err := a.apt(ctx, "", "apt-cache", args...)
	if err != nil {
		return nil, fmt.Errorf("debpkg: %w", err)
	}
	return parseMadison(table), nil
}

// parseMadison reads lines of "package | version | source", apt-cache(8).
func parseMadison(text string) []release {
	var all []release
	for line := range strings.Lines(text) {
		fields := strings.Split(line, "|")
		if len(fields) < 3 {
			continue
		}
		r := release{strings.TrimSpace(fields[0]), strings.TrimSpace(fields[1])}
		if names.MatchString(r.pkg) && r.version != "" && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}
