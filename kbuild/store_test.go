package kbuild

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// saved puts a kernel of some hundred bytes, last used age ago, in the store.
func saved(t *testing.T, s *store, key string, age time.Duration) Kernel {
	t.Helper()
	from := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(from, []byte(strings.Repeat(key, 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	k, err := s.save(Kernel{Key: key, Release: "6.0"},
		map[string]string{imageFile: from, systemMapFile: from, configFile: from, logFile: from})
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-age)
	if err := os.Chtimes(filepath.Join(s.dir, key), then, then); err != nil {
		t.Fatal(err)
	}
	return k
}

func newStore(t *testing.T, dir string, limit int64) *store {
	t.Helper()
	s, err := openStore(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range s.held {
			f.Close()
		}
	})
	return s
}

// forget gives up what the store holds, as the end of a process does.
func forget(t *testing.T, s *store) {
	t.Helper()
	for key, f := range s.held {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		delete(s.held, key)
	}
}

func keys(t *testing.T, s *store) string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestStoreEvictsTheLeastRecentlyUsed(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, gib)
	saved(t, s, "a", 3*time.Hour)
	saved(t, s, "b", 2*time.Hour)
	saved(t, s, "c", time.Hour)
	size := diskUse(filepath.Join(dir, "a"))
	s.limit = 2*size + size/2
	if err := s.evict(); err != nil || keys(t, s) != "a b c" {
		t.Errorf("what this process was given: %q, %v", keys(t, s), err)
	}
	forget(t, s)

	// Another process uses a: that makes it the most recently used one, too.
	other := newStore(t, dir, gib)
	if _, ok, err := other.load("a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.limit = size + size/2
	if err := s.evict(); err != nil || keys(t, s) != "a" {
		t.Errorf("left %q, %v", keys(t, s), err)
	}
	s.limit = 1
	if err := s.evict(); err != nil || keys(t, s) != "a" {
		t.Errorf("what another process uses: %q, %v", keys(t, s), err)
	}
	forget(t, other)
	if err := s.evict(); err != nil || keys(t, s) != "" {
		t.Errorf("left %q, %v", keys(t, s), err)
	}
	if _, ok, err := s.load("a"); ok || err != nil {
		t.Errorf("an evicted kernel was found: %v, %v", ok, err)
	}
}

func TestStoreDropsARottenImage(t *testing.T) {
	s := newStore(t, t.TempDir(), gib)
	k := saved(t, s, "a", 0)
	if _, ok, err := s.load("a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := os.WriteFile(k.Image, []byte("rotten"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.load("a"); ok || err != nil {
		t.Errorf("found: %v, %v", ok, err)
	}
	if keys(t, s) != "" {
		t.Errorf("left %q", keys(t, s))
	}
	saved(t, s, "a", 0)
	if _, ok, err := s.load("a"); !ok || err != nil {
		t.Errorf("built again: %v, %v", ok, err)
	}
}

func TestStoreSurvivesItsMove(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old")
	s := newStore(t, old, gib)
	saved(t, s, "a", 0)
	moved := filepath.Join(t.TempDir(), "new")
	if err := os.Rename(old, moved); err != nil {
		t.Fatal(err)
	}
	k, ok, err := newStore(t, moved, gib).load("a")
	if err != nil || !ok || k.Image != filepath.Join(moved, "a", imageFile) {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
}

func TestStoreCleansUpAfterACrash(t *testing.T) {
	s := newStore(t, t.TempDir(), gib)
	for name, age := range map[string]time.Duration{".new-old": 2 * time.Hour, ".new-young": time.Minute} {
		dir := filepath.Join(s.dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.evict(); err != nil || keys(t, s) != ".new-young" {
		t.Errorf("left %q, %v", keys(t, s), err)
	}
}
