package debpkg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bisectd/blame"

	"github.com/google/go-cmp/cmp"
)

const shown = `Package: linux-image-cloud-amd64
Source: linux-signed-amd64 (6.1.192+3)
Version: 6.1.192-3
Depends: linux-image-6.1.0-57-cloud-amd64 (= 6.1.192-3)
Description: Linux for x86-64 cloud (meta-package)
 This package depends on the
 latest: kernel
Size: 1496

Package: linux-image-cloud-amd64
Version: 6.1.176-1
`

func TestParseControl(t *testing.T) {
	want := map[string]string{
		"Package":     "linux-image-cloud-amd64",
		"Source":      "linux-signed-amd64 (6.1.192+3)",
		"Version":     "6.1.192-3",
		"Depends":     "linux-image-6.1.0-57-cloud-amd64 (= 6.1.192-3)",
		"Description": "Linux for x86-64 cloud (meta-package)",
		"Size":        "1496",
	}
	if diff := cmp.Diff(want, parseControl(shown)); diff != "" {
		t.Error(diff)
	}
	if got := parseControl("N: Unable to locate package x\n")["Version"]; got != "" {
		t.Errorf("a version from a complaint: %q", got)
	}
}

func TestParseDepends(t *testing.T) {
	for field, want := range map[string]string{
		"": "",
		"linux-image-6.1.0-57-cloud-amd64 (= 6.1.192-3)":                         "linux-image-6.1.0-57-cloud-amd64",
		"kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.1) | linux-initramfs": "kmod linux-base initramfs-tools linux-initramfs",
		"perl:any, libc6(>= 2), a [amd64]":                                       "perl libc6",
		"${misc:Depends}, ok-1":                                                  "ok-1",
	} {
		if got := strings.Join(parseDepends(field), " "); got != want {
			t.Errorf("%q: got %q, want %q", field, got, want)
		}
	}
}

func TestKernelLayouts(t *testing.T) {
	archive := map[string]Package{}
	for _, p := range []Package{
		{Name: "linux-image-amd64", Version: "6.1", Depends: []string{"linux-image-6.1-amd64"}},
		{Name: "linux-image-6.1-amd64", Version: "6.1", Depends: []string{"kmod", "linux-base"}, Files: []string{
			"boot/System.map-6.1-amd64", "boot/vmlinuz-6.1-amd64", "lib/modules/6.1-amd64/kernel/fs/a.ko",
			"lib/modules/6.1-amd64/modules.builtin"}},
		// The newer layout: an empty image, the files in three other packages.
		{Name: "linux-image-new", Version: "7.3", Depends: []string{"linux-image-7.3-amd64"}},
		{Name: "linux-image-7.3-amd64", Version: "7.3", Depends: []string{
			"linux-base-7.3-amd64", "linux-binary-7.3-amd64", "linux-modules-7.3-amd64", "linux-image-new"}},
		{Name: "linux-binary-7.3-amd64", Version: "7.3.4-1", Files: []string{"usr/lib/modules/7.3-amd64/vmlinuz"}},
		{Name: "linux-modules-7.3-amd64", Version: "7.3.4-1", Files: []string{
			"usr/lib/modules/7.2-amd64/kernel/old.ko", "usr/lib/modules/7.3-amd64/kernel/fs/a.ko.xz"}},
		{Name: "linux-base-7.3-amd64", Version: "7.3.4-1", Files: []string{"usr/lib/modules/7.3-amd64/modules.builtin"}},
		{Name: "linux-image-empty"},
		// What was superseded: the image is still there, the rest is not.
		{Name: "linux-image-old", Depends: []string{"linux-binary-old", "linux-base-6.19", "linux-modules-old"}},
		{Name: "linux-binary-old", Version: "6.19", Files: []string{"usr/lib/modules/6.19/vmlinuz"}},
	} {
		p.Dir = "/cache/" + p.Name
		archive[p.Name] = p
	}
	for name, want := range map[string]Image{
		"linux-image-amd64": {"linux-image-6.1-amd64", "6.1", "/cache/linux-image-6.1-amd64/boot/vmlinuz-6.1-amd64",
			"6.1-amd64", "/cache/linux-image-6.1-amd64/lib/modules/6.1-amd64"},
		"linux-image-new": {"linux-binary-7.3-amd64", "7.3.4-1",
			"/cache/linux-binary-7.3-amd64/usr/lib/modules/7.3-amd64/vmlinuz", "7.3-amd64",
			"/cache/linux-modules-7.3-amd64/usr/lib/modules/7.3-amd64"},
		"linux-image-old":   {"linux-binary-old", "6.19", "/cache/linux-binary-old/usr/lib/modules/6.19/vmlinuz", "6.19", ""},
		"linux-image-empty": {},
	} {
		packages, err := closure(context.Background(), name, func(name string) (Package, error) {
			p, ok := archive[name]
			if !ok && !strings.HasPrefix(name, "linux-base-") && !strings.HasPrefix(name, "linux-modules-") {
				t.Errorf("%s was fetched", name)
			}
			if !ok {
				return p, fmt.Errorf("%s: %w", name, errUnknown)
			}
			return p, nil
		})
		if err != nil {
			t.Error(err)
		}
		got, list, ok := find(packages)
		if (list != "") != (want.ModulesDir != "") {
			t.Errorf("%s: the list of what is built in: %q", name, list)
		}
		if diff := cmp.Diff(want, got); diff != "" || ok != (want.Vmlinuz != "") {
			t.Errorf("%s: %v %s", name, ok, diff)
		}
	}
}

func TestComplete(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "modules.builtin")
	if err := os.WriteFile(list, []byte("kernel/a.ko\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	modules := t.TempDir()
	if err := complete(Image{ModulesDir: modules}, list); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(modules, "modules.builtin")); string(text) != "kernel/a.ko\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := complete(Image{}, list); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(shown)
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range parseDepends(parseControl(text)["Depends"]) {
			if !names.MatchString(name) {
				t.Errorf("%q", name)
			}
		}
	})
}

func needApt(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("apt-get is not installed")
	}
}

// TestFetchKernel downloads the current kernel of Debian's cloud images.
func TestFetchKernel(t *testing.T) {
	needApt(t)
	if testing.Short() {
		t.Skip("downloads 30 MB")
	}
	cache := t.TempDir()
	image, err := Kernel(context.Background(), cache, "linux-image-cloud-amd64")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(image.Vmlinuz); err != nil || info.Size() < 1<<20 {
		t.Errorf("%+v: %v", image, err)
	}
	if _, err := os.Stat(filepath.Join(image.ModulesDir, "modules.builtin")); err != nil {
		t.Error(err)
	}
	if filepath.Base(image.ModulesDir) != image.Release {
		t.Errorf("%+v", image)
	}
	again, err := Kernel(context.Background(), cache, "linux-image-cloud-amd64")
	if err != nil || again != image {
		t.Errorf("the second time: %+v, %v", again, err)
	}
}

func TestFetchInstalled(t *testing.T) {
	needApt(t)
	p, err := Fetch(context.Background(), t.TempDir(), "dpkg")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, file := range p.Files {
		found = found || strings.HasSuffix(file, "bin/dpkg-deb")
	}
	if p.Dir != "/" || p.Version == "" || !found {
		t.Errorf("%+v", p)
	}
}

func TestFetchErrors(t *testing.T) {
	needApt(t)
	for name, want := range map[string]blame.Blame{
		"linux-image-of-nobody":   blame.Infrastructure,
		"../etc":                  blame.User,
		"--option=Dir::Etc=/none": blame.User,
	} {
		_, err := Fetch(context.Background(), t.TempDir(), name)
		if err == nil || blame.Of(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Fetch(context.Background(), t.TempDir(), "dpkg"); blame.Of(err) != blame.User {
		t.Errorf("without apt: %v", err)
	}
}
