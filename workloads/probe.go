package workloads

// Result is the outcome of one check of a probe.
type Result string

// A probe that the kernel refuses with ENOSYS, or that could not set itself
// up, was not measured: that is neither pass nor fail.
const (
	Pass        Result = "pass"
	Fail        Result = "fail"
	NotMeasured Result = "not-measured"
)

// ProbeRecord is what the semantic probe (package probes) reports for one
// boot: deterministic facts about timers, obtained in user space without
// tracing. Durations are nanoseconds of guest CLOCK_MONOTONIC.
type ProbeRecord struct {
	// Markers are facts that differ between kernels without either being
	// wrong. Value is e.g. "20/20": stale signals seen out of tries.
	Markers []Marker `json:"markers"`
	// Invariants are true on every healthy kernel.
	Invariants []Invariant `json:"invariants"`
}

// Marker is a yes/no fact about behaviour that POSIX leaves open.
type Marker struct {
	Name     string `json:"name"` // e.g. stale-signal-after-rearm
	Measured bool   `json:"measured"`
	Seen     bool   `json:"seen"`   // the majority of the tries
	Clear    bool   `json:"clear"`  // all tries agreed
	Detail   string `json:"detail"` // e.g. "20/20"
}

// Invariant is one check that a correct user relies on.
type Invariant struct {
	Name   string `json:"name"` // e.g. nanosleep-late
	Result Result `json:"result"`
	// Value is the measured quantity and Bound the limit it was held
	// against, both in Unit; Detail is one plain sentence.
	Value  float64 `json:"value"`
	Bound  float64 `json:"bound"`
	Unit   string  `json:"unit"`
	Detail string  `json:"detail"`
	// Histogram counts the samples behind a duration: element i those from
	// 2^i up to 2^(i+1) ns, the first all below 2 ns, early ones included.
	Histogram []int `json:"histogram,omitempty"`
}
