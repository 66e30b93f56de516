package kbuild

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bisectd/blame"
)

func TestCheckNamesAllThatIsMissing(t *testing.T) {
	if err := Check(context.Background()); err != nil {
		t.Fatalf("this host: %v", err)
	}
	bin := t.TempDir()
	for _, program := range []string{"git", "make", "gcc", "ld", "perl", "gzip"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	err := Check(context.Background())
	want := "missing flex, bison, bc, lz4; on Debian: apt-get install flex bison bc lz4"
	if blame.Of(err) != blame.User || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v (%v)", err, blame.Of(err))
	}
	headers = append(headers, struct{ name, debian string }{"no-such.h", "libnosuch-dev"})
	defer func() { headers = headers[:len(headers)-1] }()
	want = "no-such.h; on Debian: apt-get install flex bison bc lz4 libnosuch-dev"
	if err := Check(context.Background()); !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

func TestCCacheIsUsedWhereThereIsOne(t *testing.T) {
	for _, with := range []bool{false, true} {
		bin := t.TempDir()
		programs := []string{"gcc", "ld"}
		if with {
			programs = append(programs, "ccache")
		}
		for _, program := range programs {
			script := "#!/bin/sh\necho " + program + " 1.0\necho more\n"
			if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", bin)
		tools, err := findToolchain(context.Background(), "")
		if err != nil || tools.ccache != with || tools.id() != "gcc 1.0\nld 1.0\n" {
			t.Errorf("got %+v, %v, want ccache: %v", tools, err, with)
		}
	}
}
