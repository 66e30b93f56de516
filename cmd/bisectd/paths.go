package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"bisectd/blame"
)

// defaults follows the XDG base directory specification.
func defaults() kong.Vars {
	home, err := os.UserHomeDir()
	if err != nil {
		home = os.TempDir()
	}
	dir := func(env, fallback string) string {
		base := os.Getenv(env)
		if !filepath.IsAbs(base) {
			base = filepath.Join(home, fallback)
		}
		return filepath.Join(base, "bisectd")
	}
	return kong.Vars{"state": dir("XDG_STATE_HOME", ".local/state"), "cache": dir("XDG_CACHE_HOME", ".cache")}
}

// prepare makes the directories, absolute, and checks that they have room.
func (p *Paths) prepare() error {
	for _, dir := range []*string{&p.State, &p.Cache} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return blame.Errorf(blame.Infrastructure, "working directory: %w", err)
		}
		*dir = abs
		if err := os.MkdirAll(abs, 0o755); err != nil {
			return blame.Errorf(blame.User, "%w; choose another place with --state and --cache", err)
		}
		free, err := freeGiB(abs)
		if err != nil {
			return blame.Errorf(blame.Infrastructure, "free space of %s: %w", abs, err)
		}
		if free < p.MinFree {
			return blame.Errorf(blame.User, "no disk space: %s has %d GiB free, %d are needed; "+
				"free some, move it with --state and --cache, or lower --min-free", abs, free, p.MinFree)
		}
	}
	return nil
}

func freeGiB(dir string) (int, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int(fs.Bavail * uint64(fs.Bsize) >> 30), nil
}

type versionCmd struct{}

// Run prints the module's version and the revision it was built from.
func (versionCmd) Run(out io.Writer) error {
	version, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	return say(out, "bisectd %s%s\n", version, revision)
}
