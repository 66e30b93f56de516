package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"bisectd/blame"
)

// Run is a run that this process alone may write. Its methods may be called
// concurrently.
type Run struct {
	store *Store
	id    string
	lock  *flock.Flock
}

// runID is what a run may be called: its id is a directory's name.
var runID = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}$`)

// Run takes the run called id, an old or a new one, until Close or the end of
// the process, however it comes. A run that another process has is
// blame.User.
func (s *Store) Run(ctx context.Context, id string) (*Run, error) {
	if !runID.MatchString(id) {
		return nil, blame.Errorf(blame.User, "%q is no name for a run: use letters, digits and . _ + -", id)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	r := &Run{store: s, id: id}
	if err := os.MkdirAll(r.Dir(), 0o700); err != nil {
		return nil, stateError(s.dir, err)
	}
	path := filepath.Join(r.Dir(), "lock")
	r.lock = flock.New(path, flock.SetPermissions(0o600))
	locked, err := r.lock.TryLock()
	if err != nil {
		return nil, stateError(s.dir, err)
	}
	if !locked {
		return nil, blame.Errorf(blame.User, "run %s is in use by another bisectd%s: wait for it or stop it",
			id, holder(path))
	}
	// The number only helps people; the lock is what counts.
	err = os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600)
	if err == nil {
		err = r.clean()
	}
	if err != nil {
		return nil, errors.Join(stateError(s.dir, err), r.Close())
	}
	return r, nil
}

// holder names the process that has the lock, if it has written its number.
func holder(path string) string {
	pid, err := os.ReadFile(path)
	if err != nil || len(pid) == 0 {
		return ""
	}
	return " (process " + strings.TrimSpace(string(pid)) + ")"
}

// Close gives the run up. The store stays open.
func (r *Run) Close() error { return r.lock.Unlock() }

// ID returns the run's name.
func (r *Run) ID() string { return r.id }

// Dir returns the run's own directory, for what need not outlive it.
func (r *Run) Dir() string { return filepath.Join(r.store.runs(), r.id) }

// Phase says whether an event opens or closes a piece of work.
type Phase string

// The phases. Work with a Begin and no End was interrupted.
const (
	Begin Phase = "begin"
	End   Phase = "end"
)

// Event is one entry of the log.
type Event struct {
	Seq   int64           `json:"seq"` // rises, over all runs
	At    time.Time       `json:"at"`
	Kind  string          `json:"kind"` // of work, e.g. build, boot
	Key   string          `json:"key"`  // tells pieces of work of one kind apart
	Phase Phase           `json:"phase"`
	Data  json.RawMessage `json:"data"`
}

// timeFormat has a fixed width, so that text order is time order.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

// Begin records that a piece of work is about to start.
func (r *Run) Begin(ctx context.Context, kind, key string, data any) error {
	return r.append(ctx, kind, key, Begin, data)
}

// End records that a piece of work is done and what came out of it.
func (r *Run) End(ctx context.Context, kind, key string, result any) error {
	return r.append(ctx, kind, key, End, result)
}

func (r *Run) append(ctx context.Context, kind, key string, phase Phase, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("journal: %s %s: %w", kind, key, err)
	}
	_, err = r.store.db.ExecContext(ctx, "INSERT INTO events (run, at, kind, key, phase, data) VALUES (?, ?, ?, ?, ?, ?)",
		r.id, time.Now().UTC().Format(timeFormat), kind, key, phase, data)
	if err != nil {
		return r.store.failed("write "+kind+" "+key, err)
	}
	return nil
}

// Finished tells whether a piece of work is done, and decodes into result,
// unless that is nil, what its last End recorded.
func (r *Run) Finished(ctx context.Context, kind, key string, result any) (bool, error) {
	var data []byte
	err := r.store.db.QueryRowContext(ctx, `
		SELECT data FROM events WHERE run = ? AND kind = ? AND key = ? AND phase = 'end'
		ORDER BY seq DESC LIMIT 1`, r.id, kind, key).Scan(&data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, r.store.failed("read "+kind+" "+key, err)
	case result == nil:
		return true, nil
	}
	if err := json.Unmarshal(data, result); err != nil {
		return false, fmt.Errorf("journal: %s %s: %w", kind, key, err)
	}
	return true, nil
}

// Count returns how many pieces of work of one kind are finished and how many
// have begun. A piece that was interrupted and done again counts once; begun
// minus finished are those interrupted or under way.
func (r *Run) Count(ctx context.Context, kind string) (finished, begun int, err error) {
	err = r.store.db.QueryRowContext(ctx, `
		SELECT count(DISTINCT CASE phase WHEN 'end' THEN key END), count(DISTINCT key)
		FROM events WHERE run = ? AND kind = ?`, r.id, kind).Scan(&finished, &begun)
	if err != nil {
		return 0, 0, r.store.failed("count "+kind, err)
	}
	return finished, begun, nil
}

// Events returns the run's events in the order they were written.
func (r *Run) Events(ctx context.Context) ([]Event, error) { return r.store.Events(ctx, r.id) }

// Events returns the events of a run, which another process may be writing,
// in their order. A run that does not exist has none.
func (s *Store) Events(ctx context.Context, run string) ([]Event, error) {
	rows, err := s.db.QueryContext(ctx,
		"SELECT seq, at, kind, key, phase, data FROM events WHERE run = ? ORDER BY seq", run)
	if err != nil {
		return nil, s.failed("read events", err)
	}
	defer rows.Close()
	var events []Event
	for rows.Next() {
		var e Event
		var at string
		if err := rows.Scan(&e.Seq, &at, &e.Kind, &e.Key, &e.Phase, (*[]byte)(&e.Data)); err != nil {
			return nil, s.failed("read events", err)
		}
		if e.At, err = time.Parse(timeFormat, at); err != nil {
			return nil, s.damaged(err)
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed("read events", err)
	}
	return events, nil
}
