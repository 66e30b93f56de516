// Package proto is the language between bisectd and its agent in the guest:
// a job that travels in the initramfs, and framed records that come back over
// a virtio-serial port. It is shared by both sides and uses only the standard
// library.
package proto

// PortName is the virtio-serial port on which records travel.
const PortName = "org.bisectd.result.0"

// JobPath is where the agent finds its Job in the initramfs.
const JobPath = "/bisectd/job.json"

// ModulesPath is where the agent finds the list of modules to load before it
// looks for its port, one path a line, in order. The file is optional.
const ModulesPath = "/bisectd/modules"

// Version is bumped with every incompatible change of Job or Record.
const Version = 1

// MaxOutput is the cap of a step's standard output, and of its standard error,
// in bytes.
const MaxOutput = 1 << 20

// Job is all that the agent is to do. Steps run one after the other.
type Job struct {
	Version int    `json:"version"`
	ID      string `json:"id"` // echoed in Hello and End: proves which job answered
	Steps   []Step `json:"steps"`
	// Settle has the agent wait first until the kernel has its final clock
	// source, about a second after boot: for steps that are timed.
	Settle bool `json:"settle,omitempty"`
}

// Step is one program to execute.
type Step struct {
	ID      string   `json:"id"`
	Argv    []string `json:"argv"`
	Env     []string `json:"env,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	Timeout int64    `json:"timeout_ms"`
	// Trace sets hist triggers on the hrtimer events for the time of the
	// step and sends the histograms as Hist records. WallNS then has some
	// 0.3 s of preparation in it.
	Trace bool `json:"trace,omitempty"`
}

// Kind says which field of a Record is set.
type Kind string

// The kinds of record, in the order in which a boot sends them.
const (
	KindHello       Kind = "hello"
	KindFingerprint Kind = "fingerprint"
	KindClock       Kind = "clock"
	KindStep        Kind = "step"
	KindHist        Kind = "hist"
	KindEnd         Kind = "end"
)

// Record is one message from the guest.
type Record struct {
	Kind        Kind         `json:"kind"`
	Hello       *Hello       `json:"hello,omitempty"`
	Fingerprint *Fingerprint `json:"fingerprint,omitempty"`
	Clock       *Clock       `json:"clock,omitempty"`
	Step        *StepResult  `json:"step,omitempty"`
	Hist        *Hist        `json:"hist,omitempty"`
	End         *End         `json:"end,omitempty"`
}

// Hello is sent as soon as the port is open.
type Hello struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Release string `json:"release"` // uname -r
	Uptime  int64  `json:"uptime_ns"`
}

// Fingerprint describes the environment of the measurements. It is sent
// twice: before the first step and after the last one (Steal and Clocksource
// can change in between).
type Fingerprint struct {
	Release      string            `json:"release"`
	Proc         string            `json:"proc_version"` // /proc/version
	Clocksource  string            `json:"clocksource"`
	Clocksources []string          `json:"clocksources"`  // available
	Clockevent   string            `json:"clockevent"`    // current tick device of CPU 0
	ResolutionNS int64             `json:"resolution_ns"` // clock_getres(CLOCK_MONOTONIC)
	HighRes      bool              `json:"high_res"`      // hres_active in /proc/timer_list, else resolution 1 ns
	CPUs         int               `json:"cpus"`          // online
	StealTicks   int64             `json:"steal_ticks"`   // USER_HZ, all CPUs, since boot
	UptimeNS     int64             `json:"uptime_ns"`
	Settings     map[string]string `json:"settings"` // idle driver, preemption, timer_migration ... by path
	// SpinNS and SyscallNS are the host-speed reference: nanoseconds of
	// guest time for a fixed arithmetic loop and for one getppid(2).
	SpinNS    float64 `json:"spin_ns"`
	SyscallNS float64 `json:"syscall_ns"`
}

// Clock is a time stamp that the host compares with its own clock at arrival.
type Clock struct {
	MonotonicNS int64 `json:"monotonic_ns"`
	RealtimeNS  int64 `json:"realtime_ns"`
}

// StepResult is what one Step left behind.
type StepResult struct {
	ID        string `json:"id"`
	Error     string `json:"error,omitempty"` // could not be started
	Exit      int    `json:"exit"`            // 128+signal when killed
	TimedOut  bool   `json:"timed_out,omitempty"`
	Stdout    []byte `json:"stdout"`
	Stderr    []byte `json:"stderr"`
	Truncated bool   `json:"truncated,omitempty"` // Stdout or Stderr was cut at the cap
	WallNS    int64  `json:"wall_ns"`
	UserNS    int64  `json:"user_ns"`
	SystemNS  int64  `json:"system_ns"`
	Voluntary int64  `json:"voluntary"` // context switches
	Forced    int64  `json:"forced"`
}

// Hist is one tracefs histogram, as the kernel prints it.
type Hist struct {
	Step   string `json:"step"`
	Event  string `json:"event"`  // e.g. timer/hrtimer_start
	Format string `json:"format"` // the event's format file
	Text   string `json:"text"`   // the event's hist file
	Error  string `json:"error,omitempty"`
}

// End is the mandatory last record. Without it a boot did not succeed,
// whatever QEMU's exit status says.
type End struct {
	ID    string `json:"id"`
	Steps int    `json:"steps"` // results sent
	Error string `json:"error,omitempty"`
}
