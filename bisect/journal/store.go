// Package journal keeps what runs have done, so that a killed one goes on
// where it stopped: an append-only event log in SQLite and, beside it, a
// store of files named by their content. docs/journal.md describes both.
//
// An event is on disk when the call that wrote it returns. Only bisectd's
// user and root need access; file systems without working fsync or locks
// (some network ones) cannot hold a journal.
package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"bisectd/blame"
)

// schemaVersion is PRAGMA user_version of the database. It grows whenever an
// older bisectd could no longer read what this one writes.
const schemaVersion = 1

const schema = `
CREATE TABLE events (
	seq   INTEGER PRIMARY KEY,
	run   TEXT NOT NULL,
	at    TEXT NOT NULL,
	kind  TEXT NOT NULL,
	key   TEXT NOT NULL,
	phase TEXT NOT NULL CHECK (phase IN ('begin', 'end')),
	data  BLOB NOT NULL
) STRICT;
CREATE INDEX events_by_key ON events (run, kind, key, phase);
PRAGMA user_version = 1;
`

// busyTimeout is how long a write waits for another process's. Appending an
// event takes milliseconds.
const busyTimeout = 10 * time.Second

// Store is the journal of one state directory. Several processes may have it
// open; its methods may be called concurrently.
type Store struct {
	dir string
	db  *sql.DB
}

// Open opens the journal in stateDir and makes both where they are missing.
// A directory that cannot be written and a journal of a newer bisectd are
// blame.User; a damaged journal and a full disk are blame.Infrastructure.
func Open(stateDir string) (*Store, error) {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("state directory %s: %w", stateDir, err)
	}
	s := &Store{dir: dir}
	for _, d := range []string{dir, s.runs(), s.artefacts()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, stateError(dir, err)
		}
	}
	if err := writable(dir); err != nil {
		return nil, stateError(dir, err)
	}
	if s.db, err = sql.Open("sqlite", s.dsn()); err != nil {
		return nil, s.failed("open", err)
	}
	s.db.SetMaxOpenConns(1) // one writer: transactions queue here and not on SQLite's lock
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// Close closes the database. Runs that are still open fail from then on.
func (s *Store) Close() error { return s.db.Close() }

func (s *Store) path() string      { return filepath.Join(s.dir, "bisectd.db") }
func (s *Store) runs() string      { return filepath.Join(s.dir, "runs") }
func (s *Store) artefacts() string { return filepath.Join(s.dir, "artefacts") }

// dsn asks for a write-ahead log that is synced at every commit
// (sqlite.org/pragma.html#pragma_synchronous: only FULL is durable in WAL).
func (s *Store) dsn() string {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)", "synchronous(FULL)",
	}}
	return (&url.URL{Scheme: "file", Path: s.path(), RawQuery: query.Encode()}).String()
}

// prepare checks the database and makes the schema in a fresh one.
func (s *Store) prepare() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.failed("open", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	var check string
	if err := tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&check); err != nil {
		return s.failed("check", err)
	}
	if check != "ok" {
		return s.damaged(errors.New(strings.ReplaceAll(check, "\n", " ")))
	}
	var version, tables int
	row := tx.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version")
	if err := row.Scan(&version, &tables); err != nil {
		return s.failed("check", err)
	}
	switch {
	case version > schemaVersion:
		return blame.Errorf(blame.User, "journal %s was written by a newer bisectd (schema %d, this one knows %d): "+
			"use that one or another state directory", s.path(), version, schemaVersion)
	case version == schemaVersion:
		return nil
	case tables > 0:
		return blame.Errorf(blame.User, "%s is a database of another program: use another state directory", s.path())
	}
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return s.failed("create", err)
	}
	if err := tx.Commit(); err != nil {
		return s.failed("create", err)
	}
	return nil
}

// failed explains an error of SQLite.
func (s *Store) failed(doing string, err error) error {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff { // the primary result code, sqlite.org/rescode.html
		case sqlite3.SQLITE_FULL:
			return blame.Errorf(blame.Infrastructure, "journal %s: no space left: "+
				"free some and run the same command again (%w)", s.path(), err)
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return s.damaged(err)
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return blame.Errorf(blame.Infrastructure, "journal %s: another process has kept it locked for %s (%w)",
				s.path(), busyTimeout, err)
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			return blame.Errorf(blame.User, "journal %s cannot be written: check its owner and permissions, "+
				"or use another state directory (%w)", s.path(), err)
		}
	}
	return blame.Errorf(blame.Infrastructure, "journal %s: %s: %w", s.path(), doing, err)
}

func (s *Store) damaged(err error) error {
	return blame.Errorf(blame.Infrastructure, "journal %s is damaged: restore it from a backup, "+
		"or move it and its -wal file away to begin anew (%w)", s.path(), err)
}

// stateError explains why a directory or file under dir cannot be written.
func stateError(dir string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return blame.Errorf(blame.User, "state directory %s cannot be written: %w: "+
			"check its owner and permissions, or use another", dir, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return blame.Errorf(blame.Infrastructure, "state directory %s: no space left: "+
			"free some and run the same command again (%w)", dir, err)
	}
	return blame.Errorf(blame.Infrastructure, "state directory %s: %w", dir, err)
}

// writable tries to make a file in dir. SQLite would open a database that
// exists read-only and fail at the first event.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Summary is a run as Runs lists it.
type Summary struct {
	ID     string    `json:"id"`
	Events int       `json:"events"`
	First  time.Time `json:"first"` // of the first event
	Last   time.Time `json:"last"`
}

// Runs lists the runs that have events, in the order of their beginning.
func (s *Store) Runs(ctx context.Context) ([]Summary, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT run, count(*), min(at), max(at) FROM events GROUP BY run ORDER BY min(seq)`)
	if err != nil {
		return nil, s.failed("list runs", err)
	}
	defer rows.Close()
	var runs []Summary
	for rows.Next() {
		var r Summary
		var first, last string
		if err := rows.Scan(&r.ID, &r.Events, &first, &last); err != nil {
			return nil, s.failed("list runs", err)
		}
		if r.First, err = time.Parse(timeFormat, first); err != nil {
			return nil, s.damaged(err)
		}
		if r.Last, err = time.Parse(timeFormat, last); err != nil {
			return nil, s.damaged(err)
		}
		runs = append(runs, r)
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed("list runs", err)
	}
	return runs, nil
}
