package kbuild

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"bisectd/configs"
)

// TestRealKernel builds commits of a real kernel repository one after the
// other. It takes minutes, so it runs only when told what to build:
//
//	BISECTD_TEST_KERNEL_REPO     the repository
//	BISECTD_TEST_KERNEL_COMMITS  commits, separated by spaces; HEAD by default
//	BISECTD_TEST_KERNEL_CACHE    the cache directory; a temporary one by default
func TestRealKernel(t *testing.T) {
	repository := os.Getenv("BISECTD_TEST_KERNEL_REPO")
	if repository == "" {
		t.Skip("BISECTD_TEST_KERNEL_REPO is not set")
	}
	commits := strings.Fields(os.Getenv("BISECTD_TEST_KERNEL_COMMITS"))
	if len(commits) == 0 {
		commits = []string{"HEAD"}
	}
	cache := os.Getenv("BISECTD_TEST_KERNEL_CACHE")
	if cache == "" {
		cache = t.TempDir()
	}
	fragments, err := fs.Sub(configs.FS, "fragments")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := New(context.Background(), Options{Repo: repository, CacheDir: cache, Fragments: fragments})
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range commits {
		start := time.Now()
		k, err := tree.Build(context.Background(), Spec{Commit: commit, Fragments: []string{"guest", "timers"}})
		t.Logf("%s: %.1f s, build %.1f s, reused %v, %d objects, %d from ccache, signature %.12s, "+
			"release %s, lacks %v, err %v",
			commit, time.Since(start).Seconds(), k.Elapsed.Seconds(), k.Reused, k.Objects, k.CacheHits, k.Signature,
			k.Release, k.Wanted, err)
		if err != nil {
			t.Error(err)
			continue
		}
		for line := range strings.Lines(read(t, k.Log)) {
			if strings.HasPrefix(line, "bisectd: ") && strings.Contains(line, " after ") {
				t.Log(strings.TrimSpace(line))
			}
		}
		// Documentation/arch/x86/boot.rst: the magic of a bzImage.
		if image := read(t, k.Image); len(image) < 1<<20 || image[0x202:0x206] != "HdrS" {
			t.Errorf("%s is not a bzImage", k.Image)
		}
		if k.Release == "" || !strings.Contains(read(t, k.SystemMap), " T schedule\n") {
			t.Errorf("release %q, or no schedule() in System.map", k.Release)
		}
	}
}
