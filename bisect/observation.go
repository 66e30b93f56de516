package bisect

import (
	"time"

	"bisectd/workloads"
)

// Profile says what a boot does after it has taken the fingerprint.
type Profile string

// The profiles, cheapest first.
const (
	ProbeBoot       Profile = "probe"       // the semantic probe
	MetricBoot      Profile = "metric"      // the workload, untraced
	CounterpartBoot Profile = "counterpart" // what MetricBoot is, with the workload's counterpart
	TraceBoot       Profile = "trace"       // the semantic probe, then the workload under hist triggers
)

// Boot is a request for one observation. Ordinal tells boots of the same kind
// apart, so that a resumed run asks for exactly the ones it has not got.
type Boot struct {
	Commit  Commit
	VCPUs   int
	Profile Profile
	Ordinal int
	Variant Variant
	Only    string // the check that the probe is to make; all of them where empty
}

// Ending says how far a kernel came.
type Ending string

// The endings. Only Completed carries measurements.
const (
	Completed Ending = "completed"
	NoBuild   Ending = "no-build"
	NoBoot    Ending = "no-boot" // did not reach the agent
	Crashed   Ending = "crash"   // panic or reset while the workload ran
	Hung      Ending = "hang"
)

// Observation is everything that one boot gave, stored whole and never
// judged where it is stored.
type Observation struct {
	Commit      string                `json:"commit"`
	VCPUs       int                   `json:"vcpus"`
	Profile     Profile               `json:"profile"`
	Ordinal     int                   `json:"ordinal"`
	Variant     Variant               `json:"variant,omitempty"`
	Only        string                `json:"only,omitempty"`
	Ending      Ending                `json:"ending"`
	Detail      string                `json:"detail,omitempty"` // first error line, panic message
	Spoke       bool                  `json:"spoke,omitempty"`  // the kernel itself told of its failure
	Kernel      Kernel                `json:"kernel"`
	Fingerprint Fingerprint           `json:"fingerprint"`
	Samples     []workloads.Sample    `json:"samples,omitempty"` // one per execution; their median is one number
	Probe       workloads.ProbeRecord `json:"probe"`
	Tally       *workloads.Tally      `json:"tally,omitempty"`
	Console     string                `json:"console,omitempty"` // artefact: sha256 of the console log
	Startup     time.Duration         `json:"startup"`           // host time to the agent
	Elapsed     time.Duration         `json:"elapsed"`           // host time of the boot
	Voided      []string              `json:"voided,omitempty"`  // reasons of the boots thrown away before this one
}

// Kernel identifies the kernel that was booted.
type Kernel struct {
	Key       string `json:"key,omitempty"`
	Signature string `json:"signature,omitempty"` // equal signatures: the same code
	Release   string `json:"release,omitempty"`
	Compiler  string `json:"compiler,omitempty"`
	Config    string `json:"config,omitempty"` // sha256 of the final .config
}

// Fingerprint is the environment of a measurement (V1 to V4 of docs/semantics.md).
type Fingerprint struct {
	Release     string            `json:"release"`
	Accel       string            `json:"accel"`
	Clocksource string            `json:"clocksource"`
	Clockevent  string            `json:"clockevent"`
	HighRes     bool              `json:"high_res"`
	Resolution  time.Duration     `json:"resolution"` // clock_getres(CLOCK_MONOTONIC)
	CPUs        int               `json:"cpus"`       // online
	Steal       float64           `json:"steal"`      // share of the vCPUs' time, between the two fingerprints
	Waited      float64           `json:"waited"`     // share of the time that a vCPU waited for the host
	Drift       float64           `json:"drift"`      // guest seconds per host second, minus one
	Spin        float64           `json:"spin_ns"`    // host-speed reference
	Syscall     float64           `json:"syscall_ns"` // host-speed reference
	Workload    string            `json:"workload"`   // version of the workload's program
	Settings    map[string]string `json:"settings,omitempty"`
}
