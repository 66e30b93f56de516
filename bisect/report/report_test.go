package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"bisectd/bisect"
)

var update = flag.Bool("update", false, "write the golden files anew")

var results = map[string]func() bisect.Result{
	"behaviour-change": behaviourChange,
	"regression":       grid,
	"improvement":      improvement,
	"not-reproduced":   notReproduced,
	"inconclusive":     inconclusive,
	"comparison":       comparison,
	"crowded":          crowded,
	"bare": func() bisect.Result {
		return bisect.Result{Class: bisect.Inconclusive, Job: bisect.Job{Machine: bisect.Machine{Memory: 1 << 10}}}
	},
}

func text(t *testing.T, r bisect.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, result := range results {
		t.Run(name, func(t *testing.T) {
			r := result()
			var j bytes.Buffer
			if err := JSON(&j, r); err != nil {
				t.Fatal(err)
			}
			compare(t, name+".txt", text(t, r))
			compare(t, name+".summary", Summary(r)+"\n")
			if name == "behaviour-change" {
				compare(t, name+".json", j.String())
			}
			var back bisect.Result
			if err := json.Unmarshal(j.Bytes(), &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, back, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("JSON loses: -written +read\n%s", diff)
			}
		})
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", path, diff)
	}
}

// All but the list of commits fits on a page, prose is at most 75 columns wide
// and tables 80.
func TestPage(t *testing.T) {
	for name, result := range results {
		page, _, _ := strings.Cut(text(t, result()), "\nCommits tested")
		if n := strings.Count(page, "\n"); n > 60 {
			t.Errorf("%s: %d lines before the list", name, n)
		}
		inTable := false
		for line := range strings.Lines(text(t, result())) {
			line = strings.TrimSuffix(line, "\n")
			inTable = line != "" && (inTable || strings.HasPrefix(line, "Means over boots") || strings.HasPrefix(line, "Timers per"))
			limit := width
			if inTable {
				limit = 80
			}
			if name != "crowded" && utf8.RuneCountInString(line) > limit || strings.HasSuffix(line, " ") {
				t.Errorf("%s: %d columns: %q", name, utf8.RuneCountInString(line), line)
			}
		}
	}
}

// The word belongs to one class; elsewhere only the naive comparison says it.
func TestWordRegression(t *testing.T) {
	naive := regexp.MustCompile(`(?s)A naive comparison would have said:.*?\n\n`)
	for name, result := range results {
		r := result()
		got := strings.ToLower(naive.ReplaceAllString(text(t, r), "") + Summary(r))
		if strings.Contains(got, "regression") != (r.Class == bisect.Regression) {
			t.Errorf("%s: class %s, word regression %v", name, r.Class, r.Class != bisect.Regression)
		}
		if strings.Contains(got, "[regression]") {
			t.Errorf("%s: says [REGRESSION]", name)
		}
	}
}

// The verdict comes before any number but those of commits and boots.
func TestOrder(t *testing.T) {
	got := text(t, behaviourChange())
	at := -1
	for _, part := range []string{
		"Behaviour change: ", "Confirmed by", "\nWhat a user sees", "\nWhy", "\nMeans over boots", "\nContracts and markers",
		"\nTimers per operation", "\nA naive comparison", "\nHow it was found", "\nCommits tested",
	} {
		next := strings.Index(got, part)
		if next <= at {
			t.Errorf("%q is at %d, after %d", part, next, at)
		}
		at = next
	}
}

func TestNoControlCharacters(t *testing.T) {
	r := inconclusive()
	r.Reasons = []string{"a\x1b]0;title\x07b\rc\nd\u202ee\xff"}
	r.Suspects[0].Subject = "bell\x07"
	for _, got := range []string{text(t, r), Summary(r) + "\n"} {
		if i := strings.IndexFunc(got, func(c rune) bool { return c != '\n' && (c < ' ' || c == 0x7f || c == 0x202e) }); i >= 0 {
			t.Errorf("control character at %q", got[i:min(len(got), i+20)])
		}
	}
	if strings.Count(Summary(r), "\n") > 0 {
		t.Error("summary of several lines")
	}
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteError(t *testing.T) {
	if err := Text(full{}, grid()); !errors.Is(err, errFull) {
		t.Errorf("text: %v", err)
	}
	if err := JSON(full{}, grid()); !errors.Is(err, errFull) {
		t.Errorf("JSON: %v", err)
	}
}

func FuzzProse(f *testing.F) {
	f.Add("  - ", "some words and a_very_long_word_that_does_not_fit_into_any_line_of_the_page_at_all_by_itself ", 2)
	f.Add("", "", 1)
	f.Fuzz(func(t *testing.T, first, text string, most int) {
		if utf8.RuneCountInString(first) > 20 || most < 0 || most > 100 {
			return
		}
		var p page
		p.prose(first, text, most)
		lines := strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n")
		if most > 0 && len(lines) > most {
			t.Fatalf("%d lines", len(lines))
		}
		for _, l := range lines {
			if utf8.RuneCountInString(l) > width && strings.Contains(strings.TrimSpace(l[len(first):]), " ") {
				t.Fatalf("%q is wider than %d", l, width)
			}
		}
	})
}
