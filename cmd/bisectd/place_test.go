package main

import (
	"io"
	"testing"

	"bisectd/bisect"
)

// TestPlacing holds the statuses against those of git-bisect(1).
func TestPlacing(t *testing.T) {
	for verdict, want := range map[bisect.Verdict]int{bisect.Old: 0, bisect.New: 1, bisect.Skip: 125, bisect.Unknown: 125} {
		if got := fail(io.Discard, placing(verdict)); got != want {
			t.Errorf("%s: status %d, want %d", verdict, got, want)
		}
	}
}
