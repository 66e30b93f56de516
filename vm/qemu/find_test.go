package qemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bisectd/blame"
)

// TestMachineNamesTheArguments: another kernel parameter is another machine.
func TestMachineNamesTheArguments(t *testing.T) {
	l := &Launcher{version: "7.2.22"}
	name := l.Machine()
	if name != l.Machine() || !strings.HasPrefix(name, "7.2.22, machine ") {
		t.Errorf("got %q, then %q", name, l.Machine())
	}
	old := inherited
	defer func() { inherited = old }()
	inherited.result = "another"
	if l.Machine() == name {
		t.Errorf("%q also names another machine", name)
	}
}

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
