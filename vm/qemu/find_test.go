package qemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bisectd/blame"
)

func TestFindFirmware(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(with, firmware), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := findFirmware([]string{without, with}); err != nil {
		t.Error(err)
	}
	err := findFirmware([]string{without})
	if blame.Of(err) != blame.User || !strings.Contains(err.Error(), without) {
		t.Errorf("got %v", err)
	}
}
