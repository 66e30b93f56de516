package kbuild

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// objects is the state kept for one (compiler, configuration): the O=
// directory, and beside it what we know about it.
type objects struct {
	dir string
}

func (o objects) output() string  { return filepath.Join(o.dir, "o") }      // make's O=
func (o objects) log() string     { return filepath.Join(o.dir, "log") }    // of the last build
func (o objects) scratch() string { return filepath.Join(o.dir, "config") } // a .config in the making
func (o objects) stats() string   { return filepath.Join(o.dir, "ccache") } // ccache's log of results
func (o objects) marker() string  { return filepath.Join(o.dir, "building") }

func (o objects) statePath() string { return filepath.Join(o.dir, "state.json") }

// state is what is remembered of earlier builds in an O= directory.
type state struct {
	Tree  string `json:"tree"`  // the last one built; empty when the directory is new
	Whole int    `json:"whole"` // objects compiled by the last build from scratch
}

// state returns what is remembered, nothing when that cannot be read.
func (o objects) state() state {
	var s state
	if data, err := os.ReadFile(o.statePath()); err == nil && json.Unmarshal(data, &s) != nil {
		return state{}
	}
	return s
}

func (o objects) setState(s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeDurably(o.statePath(), data)
}

// begin makes the O= directory fit for a build and marks it as being built in.
// The mark outlives a crash:
//
//   - Found from an earlier boot of this host, power was lost. Objects may be
//     empty although they look new, so all of them go.
//   - Found from this boot, a build was killed. Every file that make had not
//     finished goes.
//   - Files from the future would never be made again; all of them go.
func (o objects) begin(bootID string, now time.Time) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	mark, err := os.ReadFile(o.marker())
	switch {
	case err == nil && string(mark) != bootID:
		err = o.wipe()
	case err == nil:
		err = o.sweep()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	if info, err := os.Stat(o.statePath()); err == nil && info.ModTime().After(now) {
		if err := o.wipe(); err != nil {
			return fmt.Errorf("kbuild: %w", err)
		}
	}
	if err := writeDurably(o.marker(), []byte(bootID)); err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	return os.MkdirAll(o.output(), 0o755)
}

// end removes the mark: make ended by itself and what it left is sound. The
// objects reach the disk first.
func (o objects) end() error {
	if err := syncFS(o.dir); err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	if err := os.Remove(o.marker()); err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	return nil
}

// fresh reports whether nothing was built in the O= directory before.
func (o objects) fresh() bool {
	_, err := os.Stat(filepath.Join(o.output(), ".config"))
	return err != nil
}

// wipe empties the O= directory. The size of a whole build stays known.
func (o objects) wipe() error {
	if err := os.RemoveAll(o.output()); err != nil {
		return err
	}
	if err := o.setState(state{Whole: o.state().Whole}); err != nil {
		return err
	}
	return os.MkdirAll(o.output(), 0o755)
}

// sweep removes each file that is newer than the record kbuild keeps of how it
// was made, .NAME.cmd: the record is written when the file is complete, so
// such a file is not. A file without a record is made again in any case.
func (o objects) sweep() error {
	return filepath.WalkDir(o.output(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if errors.Is(err, fs.ErrNotExist) { // the O= directory itself
				return nil
			}
			return err
		}
		name, isRecord := strings.CutSuffix(entry.Name(), ".cmd")
		if !isRecord || !strings.HasPrefix(name, ".") {
			return nil
		}
		record, err := entry.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(filepath.Dir(path), name[1:])
		made, err := os.Lstat(target)
		if err != nil || !made.Mode().IsRegular() || !made.ModTime().After(record.ModTime()) {
			return nil
		}
		return os.Remove(target)
	})
}

// installConfig puts the configuration in place. The file is left alone when
// it holds the same already: its time stamp decides what make does.
func (o objects) installConfig(text []byte) error {
	path := filepath.Join(o.output(), ".config")
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text) {
		return nil
	}
	return renameio.WriteFile(path, text, 0o644)
}
