package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// waited returns for how long each vCPU of a QEMU has been ready to run while
// the host ran something else, by the vCPU's thread: the run delay in
// /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).
// Empty where the process is gone or the host's kernel does not count.
func waited(pid int) map[string]time.Duration {
	delays := map[string]time.Duration{}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is well-formed
	for _, task := range tasks {
		name, err := os.ReadFile(filepath.Join(task, "comm"))
		if err != nil || !isVCPU(string(name)) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(task, "schedstat"))
		if err != nil {
			continue
		}
		var running, delay time.Duration
		if _, err := fmt.Sscan(string(text), &running, &delay); err == nil {
			delays[task] = delay
		}
	}
	return delays
}

// isVCPU tells a vCPU by its thread's name, which -name debug-threads=on asks
// for: "CPU 0/TCG".
func isVCPU(thread string) bool {
	cpu, accel, _ := strings.Cut(strings.TrimSpace(thread), "/")
	return strings.HasPrefix(cpu, "CPU ") && (accel == "TCG" || accel == "KVM")
}

// waits follows the waiting of a guest's vCPUs from its hello on.
type waits struct {
	from  map[string]time.Duration
	since time.Duration // when from was read, as records are stamped
}

// share returns the part of the time since hello that the vCPU which waited
// most has waited, and false where that is not to be had any more.
func (w *waits) share(now map[string]time.Duration, at time.Duration) (float64, bool) {
	if len(now) == 0 || at <= w.since {
		return 0, false
	}
	var most time.Duration
	for task, delay := range now {
		most = max(most, delay-w.from[task])
	}
	return float64(most) / float64(at-w.since), true
}
