package qemu

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"bisectd/blame"
	"bisectd/vm"
)

// program is what emulates a PC.
const program = "qemu-system-x86_64"

// firmware starts kernels and does nothing else. Its MP table lists every
// processor of a socket; SeaBIOS's only the first, and leaves the others to
// ACPI, which our kernels are built without.
const firmware = "qboot.rom"

// Launcher runs boots with one QEMU binary. It implements vm.Launcher and may
// be used by several goroutines.
type Launcher struct {
	path    string
	version string
	tscKHz  int
}

// Find returns a Launcher for the QEMU in PATH. That there is none is the
// user's blame, as only the user can install it.
func Find(ctx context.Context) (*Launcher, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, blame.Errorf(blame.User, "%s is not installed (Debian package qemu-system-x86)", program)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-version").Output()
	if err != nil {
		return nil, blame.Errorf(blame.Infrastructure, "%s -version: %w", path, err)
	}
	dirs, err := exec.CommandContext(ctx, path, "-L", "help").Output()
	if err != nil {
		return nil, blame.Errorf(blame.Infrastructure, "%s -L help: %w", path, err)
	}
	if err := findFirmware(strings.Fields(string(dirs))); err != nil {
		return nil, err
	}
	return &Launcher{path: path, version: parseVersion(string(out)), tscKHz: hostTSC()}, nil
}

// findFirmware looks for the firmware where QEMU will.
func findFirmware(dirs []string) error {
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, firmware)); err == nil {
			return nil
		}
	}
	return blame.Errorf(blame.User, "%s lacks its firmware %s (Debian package qemu-system-data; looked in %s)",
		program, firmware, strings.Join(dirs, ", "))
}

// parseVersion takes the version out of "QEMU emulator version 7.2.22 (...)",
// the distribution's in brackets included.
func parseVersion(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(strings.TrimSpace(first), "QEMU emulator version ")
}

// Machine names QEMU with everything that the launcher makes of it, the
// kernel's parameters included: the boots of two machines do not compare. The
// frequency of the host's TSC is not in it.
func (l *Launcher) Machine() string {
	sum := sha256.New()
	for _, accel := range []vm.Accel{vm.KVM, vm.TCG} {
		fmt.Fprintf(sum, "%q\n", arguments(vm.Config{Accel: accel}, inherited, 1))
	}
	return fmt.Sprintf("%s, machine %x", l.version, sum.Sum(nil)[:4])
}

// Version returns QEMU's version, the distribution's included.
func (l *Launcher) Version() string { return l.version }
