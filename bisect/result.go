package bisect

import (
	"time"

	"bisectd/workloads"
)

// Class is the kind of change that a commit made.
type Class string

// The classes. Only Regression says that somebody is worse off.
const (
	Regression       Class = "regression"
	BehaviourChange  Class = "behaviour-change"
	Improvement      Class = "improvement"
	EnvironmentShift Class = "environment-shift"
	Layout           Class = "layout"
	NotReproduced    Class = "not-reproduced"
	Inconclusive     Class = "inconclusive"
)

// Result is the answer of a run.
type Result struct {
	Run     string `json:"run"`
	Job     Job    `json:"job"`
	Good    Commit `json:"good"`
	Bad     Commit `json:"bad"`
	Commits int    `json:"commits"` // in the range
	Accel   string `json:"accel"`   // one for the whole run
	// AccelWhy is the sentence that says why, e.g. what the KVM probe found.
	AccelWhy string `json:"accel_why"`
	Workload string `json:"workload"` // program and version
	Compiler string `json:"compiler"`

	// FirstNew is the first commit on the new side and Parent the one before
	// it, both confirmed with fresh boots. Nil unless a single commit is left.
	FirstNew *Commit `json:"first_new,omitempty"`
	Parent   *Commit `json:"parent,omitempty"`
	// Suspects lists the commits among which the first new one is, where
	// more than one is left.
	Suspects []Commit `json:"suspects,omitempty"`

	// Changes are all that were found and confirmed, the one with the largest
	// share first: FirstNew, Parent, Class, Reasons, Guide and Findings are its.
	Changes []Found `json:"changes,omitempty"`
	// Rebased is there after a change of behaviour.
	Rebased *Rebased `json:"rebased,omitempty"`

	Class   Class    `json:"class"`
	Reasons []string `json:"reasons"`         // plain sentences, strongest first
	Guide   *Signal  `json:"guide,omitempty"` // what the walk went on
	// Unrelated lists signals in which the ends differ as well, but which the
	// workload does not exercise: other commits of the range made them.
	Unrelated []Signal  `json:"unrelated,omitempty"`
	Ends      []Shift   `json:"ends"`      // the metric at the ends of the range, per calibrated vCPU count
	EndVCPUs  []int     `json:"end_vcpus"` // the counts of Ends
	Findings  []Finding `json:"findings"`  // at the final pair, one per vCPU count
	Tests     []Test    `json:"tests"`     // every commit tested, in order

	Builds  int           `json:"builds"` // kernels compiled in this run
	Reused  int           `json:"reused"` // kernels taken from the store
	Boots   int           `json:"boots"`
	Voided  int           `json:"voided"` // boots thrown away by the fingerprint gate
	Elapsed time.Duration `json:"elapsed"`
}

// Found is one change of the range: two neighbouring commits that differ.
type Found struct {
	FirstNew Commit    `json:"first_new"`
	Parent   Commit    `json:"parent"`
	Class    Class     `json:"class"`
	Reasons  []string  `json:"reasons"`
	Guide    Signal    `json:"guide"`
	Findings []Finding `json:"findings"`
	// Share is the part of the ends' shift of the metric that this change
	// makes up, on the logarithmic scale; 0 where the ends do not differ in it.
	Share float64 `json:"share"`
}

// shows tells whether the change is one of the named check.
func (f Found) shows(check string) bool {
	for _, finding := range f.Findings {
		for _, p := range append(finding.Broken, finding.Mended...) {
			if p.Name == check {
				return true
			}
		}
		for _, m := range finding.Markers {
			if m.Flipped && m.Name == check {
				return true
			}
		}
	}
	return false
}

// Test is the judgement of one commit in the walk.
type Test struct {
	Commit  Commit  `json:"commit"`
	Signal  Signal  `json:"signal"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"` // what was seen, or why it was skipped
	Boots   int     `json:"boots"`
}

// Finding is the comparison of the final pair at one vCPU count.
type Finding struct {
	VCPUs   int      `json:"vcpus"`
	Class   Class    `json:"class"`
	Reasons []string `json:"reasons"`
	Shift   Shift    `json:"shift"`
	// Broken and Mended are the invariants that hold on one side only.
	Broken     []InvariantPair `json:"broken,omitempty"`
	Mended     []InvariantPair `json:"mended,omitempty"`
	Invariants []InvariantPair `json:"invariants"`
	Markers    []MarkerPair    `json:"markers"`
	Callbacks  []CallbackPair  `json:"callbacks"`
	// Repeat asks for another boot of each side before the finding counts.
	Repeat bool `json:"-"`
	// Naive is what a comparison of the bare numbers would have claimed.
	Naive string `json:"naive"`
}

// InvariantPair is one invariant on both sides.
type InvariantPair struct {
	Name string              `json:"name"`
	Old  workloads.Invariant `json:"old"`
	New  workloads.Invariant `json:"new"`
}

// MarkerPair is one marker on both sides.
type MarkerPair struct {
	Name    string           `json:"name"`
	Old     workloads.Marker `json:"old"`
	New     workloads.Marker `json:"new"`
	Flipped bool             `json:"flipped"`
}

// CallbackPair is one hrtimer callback of the traced runs on both sides.
type CallbackPair struct {
	Function string          `json:"function"`
	Old      workloads.Lives `json:"old"`
	New      workloads.Lives `json:"new"`
	OldOps   float64         `json:"old_ops"` // operations of the traced runs
	NewOps   float64         `json:"new_ops"`
	// Conserved says that every started timer is accounted for:
	// start = expire + cancel + rearm, but for those pending at the ends.
	OldConserved bool `json:"old_conserved"`
	NewConserved bool `json:"new_conserved"`
}
