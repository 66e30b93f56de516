package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	tracefs = "/sys/kernel/tracing"

	// portDeadline bounds the wait for the virtio-serial port. Where its
	// driver is built in it is there before the first process.
	portDeadline = 10 * time.Second
)

// mounts are the file systems of the guest, in order. The optional ones depend
// on the kernel's configuration.
var mounts = []struct {
	fstype, path, data string
	optional           bool
}{
	{fstype: "proc", path: "/proc"},
	{fstype: "sysfs", path: "/sys"},
	{fstype: "devtmpfs", path: "/dev"},
	{fstype: "tmpfs", path: "/tmp", data: "mode=1777"},
	{fstype: "tmpfs", path: "/run", data: "mode=0755"},
	{fstype: "tmpfs", path: "/dev/shm", data: "mode=1777"},
	{fstype: "debugfs", path: "/sys/kernel/debug", optional: true},
	{fstype: "tracefs", path: tracefs, optional: true},
}

// mount mounts what it can and reports what must be there and is not.
func mount() error {
	var errs []error
	for _, m := range mounts {
		err := os.MkdirAll(m.path, 0o755) // sysfs makes its own mount points
		if err == nil {
			err = unix.Mount(m.fstype, m.path, m.fstype, 0, m.data)
		}
		if err != nil && !m.optional {
			errs = append(errs, fmt.Errorf("mount %s on %s: %w", m.fstype, m.path, err))
		}
	}
	return errors.Join(errs...)
}

// loadModules loads the modules listed in the file at path.
func loadModules(path string) error {
	list, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSpace(name)
		if err := loadModule(name); err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) { // built in or loaded before
		return nil
	}
	return err
}

// openPort opens the virtio-serial port called name for writing.
func openPort(name string, deadline time.Duration) (*os.File, error) {
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		device, err := findPort("/sys/class/virtio-ports", name)
		if err == nil {
			// Opened by number, so that the Go runtime leaves the port to
			// blocking writes: it does not have to poll it.
			fd, err := unix.Open(filepath.Join("/dev", device), unix.O_WRONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				return os.NewFile(uintptr(fd), device), nil
			}
		}
		if time.Since(start) > deadline {
			return nil, fmt.Errorf("no virtio-serial port %s: %w", name, err)
		}
	}
}

// findPort returns the device, e.g. vport0p1, of the port called name.
func findPort(class, name string) (device string, err error) {
	names, err := filepath.Glob(filepath.Join(class, "*", "name"))
	if err != nil {
		return "", err
	}
	for _, path := range names {
		if text, err := os.ReadFile(path); err == nil && string(bytes.TrimSpace(text)) == name {
			return filepath.Base(filepath.Dir(path)), nil
		}
	}
	return "", os.ErrNotExist
}
