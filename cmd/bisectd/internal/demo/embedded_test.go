package demo

import (
	"bytes"
	"io/fs"
	"slices"
	"testing"

	"bisectd/configs"
)

// TestEmbeddedSeries reads the series that ships with bisectd, as far as that
// goes without the kernel's source.
func TestEmbeddedSeries(t *testing.T) {
	files, err := fs.Sub(configs.FS, "demo")
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSeries(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Jobs) == 0 {
		t.Error("no jobs")
	}
	empty := repository{t.TempDir()}
	for _, name := range s.patches() {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			t.Error(err)
			continue
		}
		p, err := parsePatch(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// --numstat parses the whole patch and applies nothing.
		if _, err := empty.git(t.Context(), bytes.NewReader(p.diff), nil, "apply", "--numstat", "-"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	there, err := fs.Glob(files, "*.patch")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range there {
		if !slices.Contains(s.patches(), name) {
			t.Errorf("%s is not in the series", name)
		}
	}
}
