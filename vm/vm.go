// Package vm boots kernels in virtual machines. Config describes a machine, a
// Launcher runs one boot of it and returns an Outcome; package vm/qemu holds
// the implementation.
package vm

import (
	"context"
	"time"

	"bisectd/vm/guest/proto"
)

// Accel is how guest code is executed.
type Accel string

// The accelerators of the job file.
const (
	Auto Accel = "auto" // KVM where a guest has proven it, else TCG
	KVM  Accel = "kvm"
	TCG  Accel = "tcg"
)

// Config is one machine and what it boots.
type Config struct {
	Image     string   // bzImage
	Initrd    string   // cpio archive that holds the agent as /init
	Append    []string // extra kernel parameters, after bisectd's own
	VCPUs     int
	MemoryMiB int
	Accel     Accel // KVM or TCG; Auto must have been resolved
	// Dir receives console.log and qemu.log. It exists and is empty.
	Dir string
	// BootDeadline bounds the time to the agent's Hello, RunDeadline the
	// time from there to its End record. Host time.
	BootDeadline time.Duration
	RunDeadline  time.Duration
}

// Ending says how a boot ended.
type Ending string

// The endings. All but Completed and QEMUFailed are findings about the
// kernel; what they mean for a commit is the job's rule.
const (
	Completed  Ending = "completed"   // the agent's end record arrived
	NoBoot     Ending = "no-boot"     // no Hello: hang, panic or reset before init
	Panicked   Ending = "panic"       // panic after Hello
	Reset      Ending = "reset"       // the guest went away after Hello without an end record
	Hung       Ending = "hang"        // RunDeadline passed
	QEMUFailed Ending = "qemu-failed" // infrastructure
)

// Outcome is what one boot gave.
type Outcome struct {
	Ending Ending
	Detail string // one line: panic message, last console line, QEMU's error
	// Spoke says that the kernel itself told of its failure: a panic, an oops
	// or a BUG. One that fell silent may have been the host's doing.
	Spoke   bool
	Records []Stamped
	Console string // path of the console log
	// Boot is the host time to Hello (zero when it never came), Total until
	// QEMU had exited.
	Boot, Total time.Duration
	// Waited is the share of the time from Hello to the last record for which
	// the vCPU that waited most was ready and the host ran something else.
	Waited  float64
	Command []string // QEMU's argument vector, to repeat the boot by hand
}

// Stamped is a record with the host's CLOCK_MONOTONIC at its arrival,
// relative to the launch.
type Stamped struct {
	At time.Duration
	proto.Record
}

// Launcher runs boots. The error is non-nil only when no finding about the
// kernel was made: cancellation, or blame.Infrastructure.
type Launcher interface {
	Run(context.Context, Config) (Outcome, error)
}
