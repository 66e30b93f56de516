package kbuild

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
// A mark that is found was left by a build that did not come to its end: make
// was killed, or power was lost. Files may be empty or half-written although
// they look new, and not all of them have a record that would tell, so all of
// them go; ccache brings most back. So do files from the future, which would
// never be made again.
func (o objects) begin(now time.Time) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	_, err := os.Stat(o.marker())
	broken := err == nil
	if info, err := os.Stat(o.statePath()); err == nil && info.ModTime().After(now) {
		broken = true
	}
	if broken {
		if err := o.wipe(); err != nil {
			return fmt.Errorf("kbuild: %w", err)
		}
	}
	if err := writeDurably(o.marker(), nil); err != nil {
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

// installConfig puts the configuration in place. The file is left alone when
// it holds the same already: its time stamp decides what make does.
func (o objects) installConfig(text []byte) error {
	path := filepath.Join(o.output(), ".config")
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text) {
		return nil
	}
	return renameio.WriteFile(path, text, 0o644)
}
