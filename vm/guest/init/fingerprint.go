package main

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bisectd/vm/guest/proto"
)

const (
	clocksources = "/sys/devices/system/clocksource/clocksource0/"
	clockevent   = "/sys/devices/system/clockevents/clockevent0/current_device"
)

// settings are files that say under which rules the kernel ran. One that does
// not exist is left out.
var settings = []string{
	"/proc/cmdline",
	"/proc/sys/kernel/timer_migration",
	"/proc/sys/kernel/sched_rt_runtime_us",
	"/proc/sys/kernel/randomize_va_space",
	"/sys/devices/system/cpu/cpuidle/current_driver",
	"/sys/devices/system/cpu/cpuidle/current_governor",
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
	"/sys/devices/system/cpu/nohz_full",
	"/sys/devices/system/cpu/isolated",
	"/sys/devices/system/cpu/smt/active",
	"/sys/kernel/mm/transparent_hugepage/enabled",
	"/sys/kernel/debug/sched/preempt",
}

// fingerprint describes the guest as it is now. It takes some 20 ms, nearly
// all of it in the reference loops.
func fingerprint() proto.Fingerprint {
	f := proto.Fingerprint{
		Release:      release(),
		Proc:         line("/proc/version"),
		Clocksource:  line(clocksources + "current_clocksource"),
		Clocksources: strings.Fields(line(clocksources + "available_clocksource")),
		Clockevent:   line(clockevent),
		UptimeNS:     monotonic(),
		Settings:     map[string]string{},
		SpinNS:       median(spin),
		SyscallNS:    median(syscalls),
	}
	var resolution unix.Timespec
	if unix.ClockGetres(unix.CLOCK_MONOTONIC, &resolution) == nil {
		f.ResolutionNS = resolution.Nano()
	}
	f.HighRes = highRes(line("/proc/timer_list"), f.ResolutionNS)
	f.CPUs, f.StealTicks = processors(line("/proc/stat"))
	for _, path := range settings {
		if text, err := os.ReadFile(path); err == nil {
			f.Settings[path] = strings.TrimSpace(string(text))
		}
	}
	return f
}

// settle waits until the clock source is the one that the kernel ends up with.
// The TSC serves as "tsc-early" until its frequency has been refined, a second
// after the drivers' start (arch/x86/kernel/tsc.c); then every timer is looked
// at anew, and that must not happen within a step.
func settle() {
	const deadline = 5 * time.Second
	for start := time.Now(); time.Since(start) < deadline; time.Sleep(20 * time.Millisecond) {
		if !strings.HasSuffix(line(clocksources+"current_clocksource"), "-early") {
			return
		}
	}
}

// line returns the text of a file without the white space around it, and
// nothing when it cannot be read: the host sees the gap.
func line(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// release returns the kernel's release, as uname -r.
func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// monotonic returns CLOCK_MONOTONIC in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// highRes says whether every CPU in /proc/timer_list is in high-resolution
// mode. Kernels built without it do not print the line; the resolution of the
// clock tells then.
func highRes(timerList string, resolutionNS int64) bool {
	seen := false
	for l := range strings.Lines(timerList) {
		name, value, _ := strings.Cut(l, ":")
		if strings.TrimSpace(name) != ".hres_active" {
			continue
		}
		if strings.TrimSpace(value) != "1" {
			return false
		}
		seen = true
	}
	return seen || resolutionNS == 1
}

// processors reads /proc/stat: how many CPUs are online, and the ticks stolen
// from all of them since boot (proc(5): the eighth number of the cpu line).
func processors(stat string) (online int, steal int64) {
	const stealField = 8
	for l := range strings.Lines(stat) {
		fields := strings.Fields(l)
		switch {
		case len(fields) == 0 || !strings.HasPrefix(fields[0], "cpu"):
		case fields[0] != "cpu":
			online++
		case len(fields) > stealField:
			steal, _ = strconv.ParseInt(fields[stealField], 10, 64)
		}
	}
	return online, steal
}

// median runs one reference loop nine times and returns the middle result.
func median(loop func() float64) float64 {
	var results [9]float64
	for i := range results {
		results[i] = loop()
	}
	slices.Sort(results[:])
	return results[len(results)/2]
}

// spin returns the nanoseconds of one round of a loop that only computes: a
// xorshift generator (Marsaglia 2003), each step of which waits for the last.
func spin() float64 {
	const rounds = 100_000
	x := uint64(88172645463325252)
	start := time.Now()
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	elapsed := time.Since(start)
	runtime.KeepAlive(x) // or the compiler drops the loop
	return float64(elapsed.Nanoseconds()) / rounds
}

// syscalls returns the nanoseconds of one getppid(2).
func syscalls() float64 {
	const rounds = 2_000
	start := time.Now()
	for range rounds {
		// The raw form: the scheduler of the Go runtime is not told.
		_, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	}
	return float64(time.Since(start).Nanoseconds()) / rounds
}
