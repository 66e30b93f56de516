package bisect

import "bisectd/workloads"

// SignalKind orders signals by what they cost to read: a deterministic one
// needs a single boot a commit, a metric several.
type SignalKind string

// The kinds, cheapest first.
const (
	CrashSignal     SignalKind = "crash"
	InvariantSignal SignalKind = "invariant"
	MarkerSignal    SignalKind = "marker"
	MetricSignal    SignalKind = "metric"
)

// Signal is something that differs between the two ends of a range and on
// which the walk can therefore go.
type Signal struct {
	Kind SignalKind `json:"kind"`
	Name string     `json:"name"` // e.g. nanosleep-late, bogo_ops_per_s
	Old  string     `json:"old"`  // at the good end, for people
	New  string     `json:"new"`  // at the bad end
	// Profile is the boot that shows it.
	Profile Profile `json:"profile"`
	// Related says that the job's workload exercises what the signal is
	// about. Only related signals are walked on; the others are reported.
	Related bool `json:"related"`
}

// check is the probe's check that shows the signal; none where it shows
// otherwise. A walk needs no other.
func (s Signal) check() string {
	if s.Kind == InvariantSignal || s.Kind == MarkerSignal {
		return s.Name
	}
	return ""
}

// Shift is how a metric differs between two sets of boots. The boot is the
// unit: a boot's value is the median of its executions.
type Shift struct {
	Metric string           `json:"metric"`
	Unit   string           `json:"unit"`
	Better workloads.Better `json:"better"`
	Old    Level            `json:"old"`
	New    Level            `json:"new"`
	// Effect is new/old - 1, with a 95 % confidence interval over boots.
	Effect   float64 `json:"effect"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Decision Change  `json:"decision"`
}

// Level is where a metric stands on one side.
type Level struct {
	Mean  float64   `json:"mean"`
	SD    float64   `json:"sd"` // of the boots' values
	Boots []float64 `json:"boots"`
}

// Change is the answer to "did it move?".
type Change string

// The answers. Unclear asks for more boots.
const (
	Moved   Change = "moved"
	Same    Change = "same"
	Unclear Change = "unclear"
)

// Observations are those of one commit at one vCPU count, of any profile, in
// the order in which they were made.
type Observations []Observation

// Judge turns observations into decisions. It boots nothing.
type Judge interface {
	// Signals lists what separates the ends, cheapest first.
	Signals(old, new Observations) []Signal
	// Anchored tells whether the ends are known well enough to walk on s;
	// if not, both are booted once more.
	Anchored(s Signal, old, new Observations) bool
	// Hopeless says why no walk on s can be afforded, once the ends are
	// anchored, or nothing.
	Hopeless(s Signal, old, new Observations) string
	// Place says on which side of s one commit stands, given the ends.
	Place(s Signal, old, new, commit Observations) Placement
	// Drifted tells whether later boots of the ends say that the host is not
	// as fast as it was.
	Drifted(old, new, oldNow, newNow Observations) bool
	// Shift compares the job's metric.
	Shift(old, new Observations) Shift
	// Classify names the change between the two commits of the final pair
	// at one vCPU count.
	Classify(Evidence) Finding
}

// Placement is where one commit stands.
type Placement struct {
	Verdict Verdict // Unknown asks for another boot
	Detail  string  // what was seen
	// Between says of a New commit that it is at a level of its own: behind
	// it the metric moves once more.
	Between bool
}

// Evidence is all that was observed at the final pair at one vCPU count.
type Evidence struct {
	VCPUs    int
	Old, New Observations
	Shift    Shift
	// Counterfactuals are shifts between the same two commits with one thing
	// made otherwise, nil where that was not asked for.

	// Padded has every function aligned.
	Padded *Shift
	// Pinned has the settings of the environment equal on both sides.
	Pinned *Shift
	// Honest is of the workload's counterpart, in its own metric.
	Honest *Shift
	// Reverted is between the old commit and the bad end of the range with the
	// new commit reverted on top: what remains, the commit did not do.
	Reverted *Shift
}
