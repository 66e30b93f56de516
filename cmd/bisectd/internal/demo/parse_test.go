package demo

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"bisectd/blame"
)

func TestParseSeriesMistakes(t *testing.T) {
	good, err := fs.ReadFile(testdata(), "series.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ old, with, want string }{
		"unknown key":         {"fate: code", "destiny: code", "destiny"},
		"two things at once":  {"{tag: v1}", "{tag: v1, branch: x}", "step 2: exactly one"},
		"nothing":             {"{tag: v1}", "{fate: code}", "step 2: exactly one"},
		"patch twice":         {"0002-add-file", "0001-change-two", "0001-change-two.patch"},
		"tag twice":           {"{tag: v1}", "{tag: base}", `"base" is there already`},
		"line twice":          {"{branch: side}", "{branch: main}", `"main" is there already`},
		"unknown line":        {"{switch: side}", "{switch: other}", `no line "other"`},
		"merge with itself":   {"merge: side", "merge: main", `no other line "main"`},
		"merge without date":  {`date: "2026-03-02T15:00:00+02:00"`, "", "needs a date"},
		"no root":             {"  subject:", "  #", "root must be given"},
		"bad is no tag":       {"bad: v2", "bad: main", `bad "main"`},
		"good and bad equal":  {"bad: v2", "bad: v1", "two tags"},
		"planted is unknown":  {"planted: 0003", "planted: 0004", "0004-side.patch"},
		"date that is no one": {`"2026-03-02T09:00:00+00:00"`, "yesterday", "root must be given"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(good), tt.old, tt.with, 1)
			if changed == string(good) {
				t.Fatalf("series.yaml has no %q", tt.old)
			}
			if _, err := parseSeries([]byte(changed)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := readSeries(os.DirFS(t.TempDir())); blame.Of(err) != blame.Infrastructure || err == nil {
		t.Errorf("no series: %v", err)
	}
}

func TestParsePatchMistakes(t *testing.T) {
	const head = "From: A <a@b>\nDate: Mon, 2 Mar 2026 12:00:00 +0000\nSubject: [PATCH] x\n"
	for name, mail := range map[string]string{
		"empty":        "",
		"no header":    "diff --git a/x b/x\n",
		"no author":    "Date: Mon, 2 Mar 2026 12:00:00 +0000\nSubject: x\n\n---\n",
		"two authors":  "From: A <a@b>, B <b@c>\nDate: Mon, 2 Mar 2026 12:00:00 +0000\nSubject: x\n\n---\n",
		"nameless":     "From: a@b\nDate: Mon, 2 Mar 2026 12:00:00 +0000\nSubject: x\n\n---\n",
		"no date":      "From: A <a@b>\nSubject: x\n\n---\n",
		"only a tag":   strings.Replace(head, "[PATCH] x", "[PATCH]", 1) + "\n---\n",
		"no separator": head + "\nbody\ndiff --git a/x b/x\n",
		"NUL":          head + "\nbo\x00dy\n---\n",
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := parsePatch([]byte(mail)); err == nil {
				t.Errorf("accepted: %+v", p)
			}
		})
	}
}

func FuzzParsePatch(f *testing.F) {
	for _, name := range []string{"0001-change-two.patch", "0002-add-file.patch", "0003-side.patch"} {
		data, err := fs.ReadFile(testdata(), name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parsePatch(data)
		if err != nil {
			return
		}
		if who := p.author.String(); strings.ContainsAny(who, "\n\x00") || strings.Count(who, "<") != 1 {
			t.Errorf("author would break a commit: %q", who)
		}
		if subject, _, _ := strings.Cut(p.message, "\n"); subject == "" || !strings.HasSuffix(p.message, "\n") {
			t.Errorf("message %q", p.message)
		}
	})
}

func FuzzParseSeries(f *testing.F) {
	good, err := fs.ReadFile(testdata(), "series.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSeries(data)
		if err != nil {
			return
		}
		for i, st := range s.Steps {
			if kind, _ := st.kind(); kind == "" {
				t.Errorf("step %d does nothing: %+v", i+1, st)
			}
		}
	})
}
