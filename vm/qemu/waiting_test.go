package qemu

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestShare(t *testing.T) {
	const s = time.Second
	w := waits{from: map[string]time.Duration{"a": 2 * s, "b": 5 * s}, since: 10 * s}
	tests := []struct {
		name string
		now  map[string]time.Duration
		at   time.Duration
		want float64
		ok   bool
	}{
		{"nobody waited", map[string]time.Duration{"a": 2 * s, "b": 5 * s}, 14 * s, 0, true},
		{"the one that waited most counts", map[string]time.Duration{"a": 4 * s, "b": 6 * s}, 14 * s, 0.5, true},
		{"a thread that came later", map[string]time.Duration{"c": 2 * s}, 14 * s, 0.5, true},
		{"QEMU is gone", nil, 14 * s, 0, false},
		{"no time has passed", map[string]time.Duration{"a": 3 * s}, 10 * s, 0, false},
	}
	for _, tt := range tests {
		if got, ok := w.share(tt.now, tt.at); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

// TestWaited finds the threads that have a vCPU's name, and no others.
func TestWaited(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel does not count run delays")
	}
	if got := waited(os.Getpid()); len(got) != 0 {
		t.Errorf("before: %v", got)
	}
	named, done := make(chan error), make(chan struct{})
	defer close(done)
	for _, name := range []string{"CPU 1/TCG", "worker"} {
		go func() {
			runtime.LockOSThread() // the thread ends with its name
			named <- os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid()), []byte(name), 0)
			<-done
		}()
		if err := <-named; err != nil {
			t.Fatal(err)
		}
	}
	if got := waited(os.Getpid()); len(got) != 1 {
		t.Errorf("after: %v, want one thread", got)
	}
	if got := waited(1 << 30); len(got) != 0 {
		t.Errorf("of no process: %v", got)
	}
}

func TestIsVCPU(t *testing.T) {
	for name, want := range map[string]bool{
		"CPU 0/TCG\n": true, "CPU 12/KVM\n": true, "qemu-system-x86\n": false, "call_rcu\n": false, "CPU\n": false,
	} {
		if got := isVCPU(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
