// Package demo makes the history that `bisectd demo` searches: the source of
// a packaged kernel as its first commit, and on top of it a series of patches
// some of which change a result. The same source gives the same commit ids on
// every machine.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"bisectd/blame"
)

// format is part of every repository's key. It is bumped when what build
// makes of the same input changes.
const format = "1"

// manifest is the file in a repository that says what is in it. It is written
// last: a repository without one is a wreck.
const manifest = "bisectd-demo.json"

// Repo is the demonstration's repository.
type Repo struct {
	Dir     string   // a bare repository
	Good    string   // tag that shows the old results
	Bad     string   // tag that shows the new ones
	Commits []Commit // in the order in which they were made, the source first
	Reused  bool     // it was there already

	tasks []task
}

// Commit is a commit of the demonstration.
type Commit struct {
	ID      string `json:"id"`
	Subject string `json:"subject"`
	Patch   string `json:"patch,omitempty"` // file of the series; none for the source and for merges
	Fate    string `json:"fate,omitempty"`  // what a tester meets there, as the series says
}

// Repository returns the history described by files (series.yaml and the
// patches that it names) on top of the xz-compressed tar archive. It is kept
// in dir, in a directory named after the content of both, and made when it is
// not there; a process that dies meanwhile leaves nothing that is taken for a
// repository, and a second one waits. say receives lines for people; it may be nil.
//
// An archive that is missing or that the patches do not fit is blame.User.
func Repository(ctx context.Context, dir, archive string, files fs.FS, say func(string)) (Repo, error) {
	if say == nil {
		say = func(string) {}
	}
	s, err := readSeries(files)
	if err != nil {
		return Repo{}, err
	}
	key, err := fingerprint(archive, s, files)
	if err != nil {
		return Repo{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Repo{}, fmt.Errorf("demonstration: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return Repo{}, fmt.Errorf("demonstration: lock of %s: %w", dir, err)
	}
	defer lock.Close()

	repo := Repo{Dir: filepath.Join(dir, "linux-"+key[:16]+".git"), Good: s.Good, Bad: s.Bad, tasks: s.Jobs}
	if repo.Commits = intact(ctx, repo.Dir); repo.Commits != nil {
		repo.Reused = true
		return repo, nil
	}
	if repo.Commits, err = create(ctx, repo.Dir, archive, s, files, say); err != nil {
		return Repo{}, err
	}
	return repo, nil
}

// fingerprint hashes all that the repository is made of. The jobs are no part
// of it: they run over the same commits, and find their kernels in the store.
func fingerprint(archive string, s series, files fs.FS) (string, error) {
	h := sha256.New()
	s.Jobs, s.Good, s.Bad = nil, "", ""
	steps, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("demonstration: %w", err)
	}
	fmt.Fprintf(h, "%s\n%s\n", format, steps)
	for _, name := range s.patches() {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return "", blame.Errorf(blame.Infrastructure, "demonstration: %w", err)
		}
		fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(data))
	}
	f, err := os.Open(archive)
	if err != nil {
		return "", blame.Errorf(blame.User, "kernel source: %w: install the package %s", err, s.Source.Package)
	}
	defer f.Close()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("kernel source: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// intact returns the commits of a complete repository, nil where there is
// none in dir.
func intact(ctx context.Context, dir string) []Commit {
	data, err := os.ReadFile(filepath.Join(dir, manifest))
	if err != nil {
		return nil
	}
	var commits []Commit
	if err := json.Unmarshal(data, &commits); err != nil || len(commits) == 0 {
		return nil
	}
	var ids strings.Builder
	for _, c := range commits {
		fmt.Fprintf(&ids, "%s^{tree}\n", c.ID)
	}
	found, err := repository{dir}.git(ctx, strings.NewReader(ids.String()), nil, "cat-file", "--batch-check")
	if err != nil || strings.Contains(found, "missing") {
		return nil
	}
	return commits
}

// create builds the repository beside its place and moves it there when it is
// complete and on the disk. The caller holds the lock.
func create(ctx context.Context, dir, archive string, s series, files fs.FS, say func(string)) (_ []Commit, err error) {
	parent := filepath.Dir(dir)
	if err := sweep(parent); err != nil {
		return nil, err
	}
	made, err := os.MkdirTemp(parent, unfinished)
	if err != nil {
		return nil, fmt.Errorf("demonstration: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	commits, err := build(ctx, made, archive, s, files, say)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(commits, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("demonstration: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(made, manifest), text, 0o644); err != nil {
		return nil, fmt.Errorf("demonstration: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil { // a wreck
		return nil, fmt.Errorf("demonstration: %w", err)
	}
	if err := os.Rename(made, dir); err != nil {
		return nil, fmt.Errorf("demonstration: %w", err)
	}
	return commits, nil
}

// unfinished begins the names of repositories that are being made.
const unfinished = "unfinished-"

// sweep removes what killed processes left.
func sweep(parent string) error {
	left, err := filepath.Glob(filepath.Join(parent, unfinished+"*"))
	if err != nil {
		return fmt.Errorf("demonstration: %w", err)
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("demonstration: %w", err)
		}
	}
	return nil
}
