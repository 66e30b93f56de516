package journal

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bisectd/blame"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func take(t *testing.T, s *Store, id string) *Run {
	t.Helper()
	r, err := s.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkError verifies blame and words of an error of one line.
func checkError(t *testing.T, err error, want blame.Blame, words ...string) {
	t.Helper()
	if err == nil || blame.Of(err) != want {
		t.Fatalf("got %v (blame %v), want blame %v", err, blame.Of(err), want)
	}
	for _, w := range append(words, "") {
		if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q: want one line with %q", err, w)
		}
	}
}

type result struct {
	Verdict string
	Boots   int
}

func TestEvents(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	r, other := take(t, s, "one"), take(t, s, "other")
	must(t, r.Begin(t.Context(), "boot", "a/1", map[string]int{"vcpus": 2}))
	must(t, r.End(t.Context(), "boot", "a/1", result{"old", 1}))
	must(t, r.Begin(t.Context(), "boot", "a/2", nil))
	must(t, other.End(t.Context(), "boot", "a/2", result{"new", 9}))
	must(t, r.Begin(t.Context(), "build", "a/1", nil))
	must(t, r.End(t.Context(), "boot", "a/1", result{"new", 2})) // done again: the last one counts

	check := func(r *Run) {
		t.Helper()
		checkFinished(t, r, "boot", "a/1", true, result{"new", 2})
		checkFinished(t, r, "boot", "a/2", false, result{})
		checkFinished(t, r, "build", "a/1", false, result{})
		checkFinished(t, r, "boot", "none", false, result{})
		checkCount(t, r, "boot", 1, 2)
		checkCount(t, r, "build", 0, 1)
		checkCount(t, r, "none", 0, 0)
		events, err := r.Events(t.Context())
		must(t, err)
		var got []string
		for i, e := range events {
			got = append(got, fmt.Sprintf("%s %s %s %s", e.Phase, e.Kind, e.Key, e.Data))
			if e.At.IsZero() || i > 0 && (e.Seq <= events[i-1].Seq || e.At.Before(events[i-1].At)) {
				t.Errorf("event %d out of order: %+v", i, e)
			}
		}
		want := []string{
			`begin boot a/1 {"vcpus":2}`, `end boot a/1 {"Verdict":"old","Boots":1}`, `begin boot a/2 null`,
			`begin build a/1 null`, `end boot a/1 {"Verdict":"new","Boots":2}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	check(r)
	must(t, r.Close())
	must(t, s.Close())
	s = open(t, dir) // what is read back is what was written
	check(take(t, s, "one"))

	runs, err := s.Runs(t.Context())
	must(t, err)
	if len(runs) != 2 || runs[0].ID != "one" || runs[0].Events != 5 || runs[1].ID != "other" ||
		runs[0].First.IsZero() || runs[0].Last.Before(runs[1].Last) {
		t.Errorf("runs %+v", runs)
	}
}

func checkFinished(t *testing.T, r *Run, kind, key string, want bool, wantResult result) {
	t.Helper()
	var got result
	done, err := r.Finished(t.Context(), kind, key, &got)
	must(t, err)
	if done != want || got != wantResult {
		t.Errorf("%s %s: %v %+v", kind, key, done, got)
	}
	if done, err = r.Finished(t.Context(), kind, key, nil); done != want || err != nil {
		t.Errorf("%s %s without a result: %v, %v", kind, key, done, err)
	}
}

func checkCount(t *testing.T, r *Run, kind string, wantFinished, wantBegun int) {
	t.Helper()
	finished, begun, err := r.Count(t.Context(), kind)
	must(t, err)
	if finished != wantFinished || begun != wantBegun {
		t.Errorf("%s: %d of %d, want %d of %d", kind, finished, begun, wantFinished, wantBegun)
	}
}

func TestDurable(t *testing.T) {
	s := open(t, t.TempDir())
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000"} {
		var got string
		must(t, s.db.QueryRow("PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
}

func TestUnencodable(t *testing.T) {
	r := take(t, open(t, t.TempDir()), "r")
	if err := r.End(t.Context(), "boot", "a", math.NaN()); err == nil {
		t.Error("NaN was written")
	}
	must(t, r.End(t.Context(), "boot", "a", "text"))
	var wrong int
	if _, err := r.Finished(t.Context(), "boot", "a", &wrong); err == nil {
		t.Error("text was read as a number")
	}
}

func TestRunLock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	r := take(t, s, "mine")
	_, err := open(t, dir).Run(t.Context(), "mine")
	checkError(t, err, blame.User, "run mine is in use by another bisectd", fmt.Sprintf("process %d", os.Getpid()))
	take(t, s, "another")
	must(t, r.Close())
	take(t, s, "mine")
}

func TestRunNames(t *testing.T) {
	s := open(t, t.TempDir())
	for _, id := range []string{"", ".", "..", "a/b", "../a", "a b", "a\n", "-a", strings.Repeat("a", 129)} {
		_, err := s.Run(t.Context(), id)
		checkError(t, err, blame.User, "is no name for a run")
	}
	for _, id := range []string{"a", "posix-timers.2026-11-30T22-00-00", "_", "v6.12..v6.13"} {
		if r := take(t, s, id); r.ID() != id || filepath.Base(r.Dir()) != id {
			t.Errorf("id %q, directory %s", r.ID(), r.Dir())
		}
	}
}

func TestConcurrent(t *testing.T) {
	const writers, events = 8, 25
	dir := t.TempDir()
	var wait sync.WaitGroup
	for w := range writers {
		s := open(t, dir) // two of them through one store
		r := take(t, s, fmt.Sprint("run", w))
		for half := range 2 {
			wait.Go(func() {
				for i := range events {
					key := fmt.Sprint(half, "/", i)
					if err := r.Begin(t.Context(), "boot", key, i); err != nil {
						t.Error(err)
					}
					if err := r.End(t.Context(), "boot", key, i); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wait.Wait()
	s := open(t, dir)
	for w := range writers {
		got, err := s.Events(t.Context(), fmt.Sprint("run", w))
		must(t, err)
		if len(got) != 4*events {
			t.Errorf("run %d: %d events, want %d", w, len(got), 4*events)
		}
	}
}

func TestArtefact(t *testing.T) {
	s := open(t, t.TempDir())
	r := take(t, s, "r")
	content := bytes.Repeat([]byte("console\n"), 100_000)
	path := filepath.Join(t.TempDir(), "console.log")
	must(t, os.WriteFile(path, content, 0o666))
	for range 2 { // the same content again is no mistake
		sum, err := r.Artefact(t.Context(), path)
		must(t, err)
		if want := sha256.Sum256(content); sum != hex.EncodeToString(want[:]) {
			t.Errorf("sum %s", sum)
		}
		got, err := os.ReadFile(r.ArtefactPath(sum))
		must(t, err)
		if !bytes.Equal(got, content) || r.ArtefactPath(sum) != filepath.Join(s.artefacts(), sum[:2], sum[2:]) {
			t.Errorf("%d bytes in %s", len(got), r.ArtefactPath(sum))
		}
	}
	left, err := os.ReadDir(r.incoming())
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := r.Artefact(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that does not exist was stored")
	}
	if got := r.ArtefactPath(""); got != s.artefacts() {
		t.Errorf("path of nothing: %s", got)
	}
}

// What a killed process has half copied goes when the run is taken again.
func TestLeftovers(t *testing.T) {
	s := open(t, t.TempDir())
	r := take(t, s, "r")
	half := filepath.Join(r.incoming(), "half")
	must(t, os.WriteFile(half, []byte("x"), 0o600))
	must(t, r.Close())
	take(t, s, "r")
	if _, err := os.Stat(half); err == nil {
		t.Error("still there")
	}
}

func TestNewerSchema(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	_, err := s.db.Exec("PRAGMA user_version = 2")
	must(t, err)
	must(t, s.Close())
	_, err = Open(dir)
	checkError(t, err, blame.User, "newer bisectd", "schema 2, this one knows 1")
}

func TestForeignDatabase(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "bisectd.db"))
	must(t, err)
	_, err = db.Exec("CREATE TABLE bookmarks (url TEXT)")
	must(t, err)
	must(t, db.Close())
	_, err = Open(dir)
	checkError(t, err, blame.User, "another program")
}

func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(data []byte) []byte{
		"not a database": func([]byte) []byte { return bytes.Repeat([]byte("kernel panic "), 1000) },
		"page destroyed": func(d []byte) []byte { return append(d[:4096:4096], bytes.Repeat([]byte{0xa5}, len(d)-4096)...) },
		"cut short":      func(d []byte) []byte { return d[:len(d)/2] },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			r := take(t, s, "r")
			for i := range 100 {
				must(t, r.Begin(t.Context(), "boot", fmt.Sprint(i), strings.Repeat("x", 200)))
			}
			must(t, r.Close())
			must(t, s.Close()) // the last one to close moves the log into the database
			data, err := os.ReadFile(s.path())
			must(t, err)
			must(t, os.WriteFile(s.path(), damage(data), 0o600))
			_, err = Open(dir)
			checkError(t, err, blame.Infrastructure, "is damaged", s.path())
		})
	}
}

func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o666))
	for _, dir := range []string{file, filepath.Join(file, "state"), "/proc/bisectd"} {
		_, err := Open(dir)
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// The database's own limit gives the error of a full disk.
func TestFull(t *testing.T) {
	s := open(t, t.TempDir())
	r := take(t, s, "r")
	must(t, r.Begin(t.Context(), "boot", "first", nil))
	var pages int
	must(t, s.db.QueryRow("PRAGMA max_page_count = 10").Scan(&pages))
	err := r.End(t.Context(), "boot", "first", strings.Repeat("x", 100_000))
	checkError(t, err, blame.Infrastructure, "no space left", "run the same command again")
	must(t, s.db.QueryRow("PRAGMA max_page_count = 1000").Scan(&pages))
	must(t, r.End(t.Context(), "boot", "first", "ok")) // freed: it goes on
	checkCount(t, r, "boot", 1, 1)
}
