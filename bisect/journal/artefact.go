package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// incoming is where an artefact grows before it has a name: in the run's
// directory, so that whoever takes the run next may remove what a killed
// process left.
func (r *Run) incoming() string { return filepath.Join(r.Dir(), "incoming") }

func (r *Run) clean() error {
	if err := os.RemoveAll(r.incoming()); err != nil {
		return err
	}
	return os.Mkdir(r.incoming(), 0o700)
}

// Artefact copies the file at path into the store and returns the SHA-256 of
// its content in hexadecimal, by which ArtefactPath finds it. The copy is
// complete and on disk when Artefact returns, and never there in part.
func (r *Run) Artefact(ctx context.Context, path string) (string, error) {
	source, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("artefact: %w", err)
	}
	defer source.Close()
	copied, err := os.CreateTemp(r.incoming(), "")
	if err != nil {
		return "", stateError(r.store.dir, err)
	}
	defer os.Remove(copied.Name()) // renamed away by then
	defer copied.Close()           // Sync has told of every failure

	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(copied, hash), reader{ctx, source}); err != nil {
		return "", stateError(r.store.dir, fmt.Errorf("artefact %s: %w", path, err))
	}
	if err := errors.Join(copied.Chmod(0o400), copied.Sync()); err != nil {
		return "", stateError(r.store.dir, fmt.Errorf("artefact %s: %w", path, err))
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	if err := place(copied.Name(), r.store.ArtefactPath(sum)); err != nil {
		return "", stateError(r.store.dir, fmt.Errorf("artefact %s: %w", path, err))
	}
	return sum, nil
}

// ArtefactPath returns where the artefact with the given SHA-256 is, or would
// be.
func (s *Store) ArtefactPath(sha256 string) string {
	cut := min(2, len(sha256))
	return filepath.Join(s.artefacts(), sha256[:cut], sha256[cut:])
}

// ArtefactPath is the store's.
func (r *Run) ArtefactPath(sha256 string) string { return r.store.ArtefactPath(sha256) }

// place renames a file and syncs the directories that tell of it. A file of
// the same name has the same content; replacing it changes nothing.
func place(from, to string) error {
	dir := filepath.Dir(to)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// reader ends with its context.
type reader struct {
	ctx context.Context //nolint:containedctx // lives for one copy
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
