package qemu

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name, or rewrites that.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// TestConsole says what was found in each log of testdata/console, whole or a
// byte at a time.
func TestConsole(t *testing.T) {
	logs, err := filepath.Glob("testdata/console/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatal("no logs: ", err)
	}
	var got strings.Builder
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var whole, bytewise console
		_, _ = whole.Write(text)
		whole.close()
		for i := range text {
			_, _ = bytewise.Write(text[i : i+1])
		}
		bytewise.close()
		if whole.cause() != bytewise.cause() || whole.last != bytewise.last {
			t.Errorf("%s: %q as a whole, %q a byte at a time", path, whole.cause(), bytewise.cause())
		}
		fmt.Fprintf(&got, "%s\n\tcause: %s\n\tspoke: %v\n\tlast:  %s\n",
			filepath.Base(path), whole.cause(), whole.spoke(), whole.last)
	}
	golden(t, "console.golden", got.String())
}

func TestConsoleLongLine(t *testing.T) {
	var c console
	for range 100 {
		_, _ = c.Write([]byte(strings.Repeat("x", 1000)))
	}
	_, _ = c.Write([]byte("\n" + panicText + "after it\n"))
	if c.panic != "after it" {
		t.Errorf("panic %q", c.panic)
	}
	if len(c.partial) != 0 {
		t.Errorf("%d bytes left", len(c.partial))
	}
}

func TestClean(t *testing.T) {
	tests := []struct{ line, want string }{
		{"[    0.000000] Linux version 6.12\r", "Linux version 6.12"},
		{"[12345.678901][  T123] text", "text"},
		{"[    1.000000][    C0] text", "text"},
		{"<4>[    1.000000] text", "text"},
		{"\x1b[0;32m[    1.000000] green\x1b[0m", "green"},
		{"[drm] text", "[drm] text"},
		{" [    1.000000] indented", "[    1.000000] indented"},
		{"\x1bcSeaBIOS", "SeaBIOS"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := clean(tt.line); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.line, got, tt.want)
		}
	}
}

func FuzzConsole(f *testing.F) {
	f.Add([]byte("[    1.0] Kernel panic - not syncing: x\n"), 3)
	f.Add([]byte("\x1b[2J BUG: a\nOops: 0000 [#1]\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var whole, parts console
		_, _ = whole.Write(text)
		whole.close()
		cut = max(0, min(cut, len(text)))
		_, _ = parts.Write(text[:cut])
		_, _ = parts.Write(text[cut:])
		parts.close()
		if len(text) < maxLine && whole.cause() != parts.cause() {
			t.Errorf("%q and %q", whole.cause(), parts.cause())
		}
		if strings.Contains(whole.cause()+whole.last, "\n") {
			t.Error("more than one line")
		}
	})
}
