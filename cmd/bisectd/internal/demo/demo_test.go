package demo

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"bisectd/bisect"
	"bisectd/blame"
	"bisectd/workloads"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sleeper is a workload that jobs can name without a program behind it.
type sleeper struct{ workloads.Workload }

func (sleeper) Name() string                                                { return "test/sleep" }
func (sleeper) Metrics() []string                                           { return []string{"late_ns"} }
func (sleeper) Command(workloads.Params) (cmd workloads.Command, err error) { return cmd, nil }

func TestMain(m *testing.M) {
	workloads.Register(sleeper{})
	os.Exit(m.Run())
}

// entries is a source tree with all that git tells apart.
var entries = []tar.Header{
	{Name: "pax_global_header", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}},
	{Name: "linux-test/", Typeflag: tar.TypeDir, Mode: 0o755},
	{Name: "linux-test/.gitignore", Typeflag: tar.TypeReg, Mode: 0o644, Linkname: "*.c\n"},
	{Name: "linux-test/a.c", Typeflag: tar.TypeReg, Mode: 0o644, Linkname: "one\ntwo\nthree\n"},
	{Name: "linux-test/b.c", Typeflag: tar.TypeReg, Mode: 0o644, Linkname: "no newline at the end"},
	{Name: "linux-test/empty", Typeflag: tar.TypeReg, Mode: 0o644},
	{Name: "linux-test/scripts/", Typeflag: tar.TypeDir, Mode: 0o755},
	{Name: "linux-test/scripts/with space", Typeflag: tar.TypeReg, Mode: 0o755, Linkname: "#!/bin/sh\n"},
	{Name: "linux-test/scripts/link", Typeflag: tar.TypeSymlink, Linkname: "../a.c"},
}

// pack writes a .tar.xz; the content of a regular file stands in Linkname.
func pack(t *testing.T, entries []tar.Header) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "linux-test.tar"))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname, h.Size = h.Linkname, "", int64(len(h.Linkname))
		}
		if err := errors.Join(w.WriteHeader(&h), write(w, content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("xz", "-T1", f.Name()).CombinedOutput(); err != nil {
		t.Fatalf("xz (package xz-utils): %v: %s", err, out)
	}
	return f.Name() + ".xz"
}

func write(w *tar.Writer, content string) error {
	_, err := w.Write([]byte(content))
	return err
}

// git asks the finished repository, as a user would.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := repository{dir}.git(t.Context(), nil, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func testdata() fs.FS { return os.DirFS("testdata/series") }

// TestRepositoryGolden pins every object id: they depend on the archive and
// the series, and on nothing else.
func TestRepositoryGolden(t *testing.T) {
	t.Setenv("GIT_AUTHOR_NAME", "somebody else")
	t.Setenv("GIT_DIR", "/nowhere")
	t.Setenv("TZ", "Asia/Tokyo")
	r, err := Repository(t.Context(), t.TempDir(), pack(t, entries), testdata(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := git(t, r.Dir, "log", "--graph", "--decorate", "--date-order", "--date=iso",
		"--pretty=format:%H%d%n%an <%ae> %ad%n%cn %cd%n%B", r.Bad) + "\n\n" + git(t, r.Dir, "ls-tree", "-r", r.Bad) + "\n"
	golden := filepath.Join("testdata", "history.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(r.Dir), unfinished+"*")); left != nil {
		t.Errorf("left behind: %s", left)
	}
}

func TestRepositoryIsReused(t *testing.T) {
	dir, archive := t.TempDir(), pack(t, entries)
	first, err := Repository(t.Context(), dir, archive, testdata(), nil)
	if err != nil || first.Reused {
		t.Fatalf("first: reused %v, %v", first.Reused, err)
	}
	again, err := Repository(t.Context(), dir, archive, testdata(), nil)
	if err != nil || !again.Reused {
		t.Fatalf("again: reused %v, %v", again.Reused, err)
	}
	if diff := cmp.Diff(first.Commits, again.Commits); diff != "" {
		t.Errorf("commits (-first +again):\n%s", diff)
	}
}

// TestRepositoryIsRepaired has what a crash or a careless hand can leave.
func TestRepositoryIsRepaired(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, r Repo) error{
		"no manifest": func(_ *testing.T, r Repo) error { return os.Remove(filepath.Join(r.Dir, manifest)) },
		"manifest cut": func(_ *testing.T, r Repo) error {
			return os.Truncate(filepath.Join(r.Dir, manifest), 10)
		},
		"objects gone": func(_ *testing.T, r Repo) error { return os.RemoveAll(filepath.Join(r.Dir, "objects")) },
		"killed while making another": func(t *testing.T, r Repo) error {
			wreck := filepath.Join(filepath.Dir(r.Dir), unfinished+"1")
			t.Cleanup(func() {
				if _, err := os.Stat(wreck); err == nil {
					t.Errorf("%s is still there", wreck)
				}
			})
			return errors.Join(os.RemoveAll(r.Dir), os.MkdirAll(filepath.Join(wreck, "objects"), 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, archive := t.TempDir(), pack(t, entries)
			first, err := Repository(t.Context(), dir, archive, testdata(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := harm(t, first); err != nil {
				t.Fatal(err)
			}
			again, err := Repository(t.Context(), dir, archive, testdata(), nil)
			if err != nil || again.Reused {
				t.Fatalf("again: reused %v, %v", again.Reused, err)
			}
			if got := git(t, again.Dir, "rev-parse", again.Bad); got != again.Commits[len(again.Commits)-1].ID {
				t.Errorf("%s is %s, last commit is %v", again.Bad, got, again.Commits)
			}
			if diff := cmp.Diff(first.Commits, again.Commits); diff != "" {
				t.Errorf("commits (-first +again):\n%s", diff)
			}
		})
	}
}

// TestContentMakesTheKey changes one thing at a time.
func TestContentMakesTheKey(t *testing.T) {
	dir, archive := t.TempDir(), pack(t, entries)
	first, err := Repository(t.Context(), dir, archive, testdata(), nil)
	if err != nil {
		t.Fatal(err)
	}
	files := overlay(t, "0001-change-two.patch", func(s string) string { return strings.Replace(s, "Why", "Because", 1) })
	patched, err := Repository(t.Context(), dir, archive, files, nil)
	if err != nil || patched.Reused || patched.Dir == first.Dir {
		t.Errorf("other patch: %+v, %v", patched, err)
	}
	jobs := overlay(t, "series.yaml", func(s string) string { return strings.Replace(s, "late_ns", "early_ns", 1) })
	measured, err := Repository(t.Context(), dir, archive, jobs, nil)
	if err != nil || !measured.Reused || measured.Dir != first.Dir {
		t.Errorf("another metric: %+v, %v", measured, err)
	}
	other := pack(t, append(entries, tar.Header{Name: "linux-test/c.c", Typeflag: tar.TypeReg, Mode: 0o644}))
	grown, err := Repository(t.Context(), dir, other, testdata(), nil)
	if err != nil || grown.Reused || grown.Dir == first.Dir {
		t.Errorf("other archive: %+v, %v", grown, err)
	}
}

// overlay is the series of testdata with one file changed.
func overlay(t *testing.T, name string, change func(string) string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(testdata(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(testdata(), path)
		files[path] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files[name] = &fstest.MapFile{Data: []byte(change(string(files[name].Data)))}
	return files
}

func TestRepositoryErrors(t *testing.T) {
	good := pack(t, entries)
	cut := pack(t, entries)
	if err := os.Truncate(cut, 200); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.tar.xz")
	if err := os.WriteFile(text, []byte("no archive\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mail := "0001-change-two.patch"
	for name, tt := range map[string]struct {
		archive string
		files   fs.FS
		want    []string
		blame   blame.Blame
	}{
		"no archive": {"/nonexistent.tar.xz", testdata(), []string{"/nonexistent.tar.xz", "linux-source-test"}, blame.User},
		"patch does not fit": {good, overlay(t, mail, func(s string) string { return strings.Replace(s, "-two", "-2", 1) }),
			[]string{mail, "does not apply", "a.c"}, blame.User},
		"patch is damaged": {good, overlay(t, mail, func(s string) string { return s[:strings.Index(s, " three")] }),
			[]string{mail, "corrupt"}, blame.Infrastructure},
		"patch is no mail": {good, overlay(t, mail, func(string) string { return "two" }),
			[]string{mail}, blame.Infrastructure},
		"merge conflicts": {good, overlay(t, "0003-side.patch", func(s string) string {
			return strings.ReplaceAll(s, "+side", "+main")[:strings.Index(s, "diff --git")] + conflict
		}), []string{"merge of side"}, blame.Infrastructure},
		"archive cut":     {cut, testdata(), []string{"xz", "nexpected end"}, blame.Infrastructure},
		"archive is text": {text, testdata(), []string{"xz", "format not recognized"}, blame.Infrastructure},
		"other directory": {pack(t, []tar.Header{{Name: "other/a.c", Typeflag: tar.TypeReg}}), testdata(),
			[]string{`"other/a.c"`, "linux-test/"}, blame.Infrastructure},
		"path leads out": {pack(t, []tar.Header{{Name: "linux-test/../../x", Typeflag: tar.TypeReg}}), testdata(),
			[]string{"linux-test/../../x"}, blame.Infrastructure},
		"hard link": {pack(t, []tar.Header{{Name: "linux-test/x", Typeflag: tar.TypeLink, Linkname: "y"}}), testdata(),
			[]string{"linux-test/x", "neither a file"}, blame.Infrastructure},
		"git's own directory": {pack(t, []tar.Header{{Name: "linux-test/.git/config", Typeflag: tar.TypeReg}}), testdata(),
			[]string{".git"}, blame.Infrastructure},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Repository(t.Context(), dir, tt.archive, tt.files, nil)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
			if got := blame.Of(err); got != tt.blame {
				t.Errorf("blame %v, want %v: %v", got, tt.blame, err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "[lu]*[^k]")); left != nil {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

// conflict changes the line that the main line changes as well.
const conflict = `diff --git a/a.c b/a.c
--- a/a.c
+++ b/a.c
@@ -1,3 +1,3 @@
 one
 TWO
-three
+third
`

func TestRepositoryCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	stop := func(line string) {
		if strings.Contains(line, "applying") {
			cancel()
		}
	}
	_, err := Repository(ctx, dir, pack(t, entries), testdata(), stop)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.git")); left != nil {
		t.Errorf("left behind: %s", left)
	}
}

func TestJobs(t *testing.T) {
	r, err := Repository(t.Context(), t.TempDir(), pack(t, entries), testdata(), nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := r.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(jobs))
	}
	j := jobs[0]
	if want := git(t, r.Dir, "rev-parse", r.Bad+"^2"); j.Planted.ID != want || j.Planted.Subject != "side: Change b" {
		t.Errorf("planted %+v, want %s", j.Planted, want)
	}
	if j.Class != bisect.Regression || j.Shows == "" || j.Repo != r.Dir || j.Bad != "v2" || j.Judge.Metric != "late_ns" {
		t.Errorf("job %+v", j)
	}
	if diff := cmp.Diff([]int{1, 2}, j.Machine.VCPUs); diff != "" {
		t.Errorf("vcpus (-want +got):\n%s", diff)
	}
}

func TestJobsMistakes(t *testing.T) {
	files := overlay(t, "series.yaml", func(s string) string { return strings.Replace(s, "late_ns", "early_ns", 1) })
	r, err := Repository(t.Context(), t.TempDir(), pack(t, entries), files, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Jobs()
	if err == nil || !strings.Contains(err.Error(), "early_ns") || !strings.Contains(err.Error(), "slow") {
		t.Errorf("got %v", err)
	}
}
