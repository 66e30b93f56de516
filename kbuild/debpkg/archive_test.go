package debpkg

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bisectd/blame"

	"github.com/google/go-cmp/cmp"
)

const targets = `Debian|Debian|http://mirror.example/debian/
Debian|Debian|http://mirror.example/debian/
Debian|Debian-Security|http://mirror.example/security/
Debian Backports|Debian Backports|http://mirror.example/debian/
Node|Node|https://other.example/
$(ORIGIN)|$(LABEL)|https://unsigned.example/
Debian|Debian|http://two words.example/
`

func TestSources(t *testing.T) {
	m := parseMirrors(targets)
	if m != (mirrors{"http://mirror.example/debian/", "http://mirror.example/security/"}) {
		t.Errorf("%+v", m)
	}
	text := sourcesOf(m)
	for _, want := range []string{
		"URIs: http://mirror.example/debian/\nSuites: bullseye bookworm bookworm-backports ",
		"URIs: http://mirror.example/security/\nSuites: bullseye-security ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if text := sourcesOf(mirrors{main: "http://mirror.example/"}); strings.Count(text, "Types:") != 1 {
		t.Errorf("without security updates:\n%s", text)
	}
	if text := sourcesOf(parseMirrors("")); text != "" {
		t.Errorf("without a mirror:\n%s", text)
	}
}

const madison = `linux-image-6.12.118+deb13-cloud-amd64 | 6.12.118-1 | http://mirror.example/security trixie-security/main amd64 Packages
linux-image-6.1.0-57-cloud-amd64 | 6.1.192-3 | http://mirror.example/security bookworm-security/main amd64 Packages
linux-image-6.1.0-57-cloud-amd64 | 6.1.192-3 | http://mirror.example/debian bookworm/main amd64 Packages
linux-image-6.12.95+deb12-cloud-amd64 | 6.12.95-1~bpo12+1 | http://mirror.example/debian bookworm-backports/main amd64 Packages
linux-image-7.3.4+deb13-cloud-amd64 | 7.3.4-1~bpo13+1 | http://mirror.example/debian trixie-backports/main amd64 Packages
linux-image-7.3-cloud-amd64 | 7.3~rc7-1~exp1 | http://mirror.example/debian experimental/main amd64 Packages
Linux | 7.9 | not the name of a package
linux-image-7.9-cloud-amd64 | 7.9

N: a remark
`

func TestChoose(t *testing.T) {
	all := parseMadison(madison)
	if len(all) != 5 {
		t.Errorf("%d releases: %+v", len(all), all)
	}
	for want, pkg := range map[string]string{
		"6.12":     "linux-image-6.12.118+deb13-cloud-amd64",
		"6.12.95":  "linux-image-6.12.95+deb12-cloud-amd64",
		"6.1":      "linux-image-6.1.0-57-cloud-amd64",
		"7.3":      "linux-image-7.3.4+deb13-cloud-amd64",
		"6":        "linux-image-6.12.118+deb13-cloud-amd64",
		Newest:     "linux-image-7.3.4+deb13-cloud-amd64",
		"6.13":     "",
		"6.12.9":   "",
		"6.1.1922": "",
	} {
		got, ok := choose(all, want)
		if got.pkg != pkg || ok != (pkg != "") {
			t.Errorf("%s: got %q, want %q", want, got.pkg, pkg)
		}
	}
	for name, want := range map[string]bool{"6.12": true, "6": true, Newest: true, "6.12-rc1": false, "6.": false,
		"linux-image-6.12": false, "": false, "6.12.1.1.1": false} {
		if isVersion(name) != want {
			t.Errorf("%q: a version: %v", name, !want)
		}
	}
	if diff := cmp.Diff([]int{7, 3, 4, 1, 13, 1}, numbers("7.3.4-1~bpo13+1")); diff != "" {
		t.Error(diff)
	}
}

func FuzzMadison(f *testing.F) {
	f.Add(madison, "6.12")
	f.Add(targets, Newest)
	f.Fuzz(func(t *testing.T, text, want string) {
		parseMirrors(text)
		r, ok := choose(parseMadison(text), want)
		if ok && (!names.MatchString(r.pkg) || r.version == "") {
			t.Errorf("%+v", r)
		}
	})
}

// TestUpdate keeps lists that are fresh, and remembers why others are not.
func TestUpdate(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	calls := filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$@\" >>" + calls + "\necho 'E: no such suite' >&2\nexit 100\n"
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	stamp := filepath.Join(dir, "updated")
	for i, tt := range []struct {
		changed bool
		age     time.Duration
		calls   int
	}{{false, 0, 1}, {false, 0, 1}, {true, 0, 2}, {false, 2 * shelfLife, 3}} {
		if tt.age > 0 {
			if err := os.Chtimes(stamp, time.Time{}, time.Now().Add(-tt.age)); err != nil {
				t.Fatal(err)
			}
		}
		a := archive{config: "/apt.conf"}
		if err := a.update(t.Context(), stamp, tt.changed); err != nil {
			t.Fatal(err)
		}
		out, err := os.ReadFile(calls)
		if err != nil || strings.Count(string(out), "--config-file /apt.conf --quiet update\n") != tt.calls {
			t.Errorf("%d: want %d calls: %s %v", i, tt.calls, out, err)
		}
		if _, err := a.apt(t.Context(), "", "apt-get", "download"); tt.changed && !strings.Contains(err.Error(), "no such suite") {
			t.Error(err)
		}
	}
}

// TestAllSuites fetches the newest kernel there is, from a suite that is not
// the host's own.
func TestAllSuites(t *testing.T) {
	needApt(t)
	if testing.Short() {
		t.Skip("downloads 100 MB")
	}
	image, err := Kernel(t.Context(), t.TempDir(), Newest)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(image.Vmlinuz); err != nil || info.Size() < 1<<20 {
		t.Errorf("%+v: %v", image, err)
	}
	if info, err := os.Stat(image.ModulesDir); err != nil || !info.IsDir() || filepath.Base(image.ModulesDir) != image.Release {
		t.Errorf("%+v: %v", image, err)
	}
}

func TestAllSuitesErrors(t *testing.T) {
	needApt(t)
	if _, err := allSuites(t.Context(), t.TempDir()+`/"`); blame.Of(err) != blame.User {
		t.Error(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte("#!/bin/sh\necho '$(ORIGIN)|x|y'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	if _, err := Kernel(context.Background(), t.TempDir(), "6.12"); err == nil || blame.Of(err) != blame.User {
		t.Errorf("without a mirror: %v", err)
	}
}
