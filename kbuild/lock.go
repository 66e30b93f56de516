package kbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a lock that is held is tried again: flock(2) cannot
// wait with a deadline.
const lockPoll = 50 * time.Millisecond

// lock takes the lock file at path and returns it open; closing it gives the
// lock up. Children that inherit the descriptor share the lock (flock(2)), so
// what a killed bisectd left running keeps it until the last of it is gone.
func lock(ctx context.Context, path string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("kbuild: %w", err)
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, signLock(f)
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("kbuild: lock %s: %w", path, err)
		}
		select {
		case <-time.After(lockPoll):
		case <-deadline.C:
			defer f.Close()
			return nil, fmt.Errorf("kbuild: waited %s for %s, held by %s", wait, path, holder(f))
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// signLock writes who holds the lock, for the message of those who wait.
func signLock(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("kbuild: %w", err)
	}
	return nil
}

func holder(f *os.File) string {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0) // io.EOF: shorter than 32
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		return "an unknown process"
	}
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return fmt.Sprintf("what process %d left running when it ended", pid)
	}
	return fmt.Sprintf("process %d", pid)
}
