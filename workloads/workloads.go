// Package workloads holds what runs in a guest and what comes out of it, as
// data: metrics, probe records and timer tallies. Nothing in it judges.
package workloads

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Better is the direction in which a metric improves.
type Better string

// The two directions.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// Metric is one number that a workload reports.
type Metric struct {
	Name   string  `json:"name"` // as in the job file, e.g. bogo_ops_per_s
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"` // e.g. "ops/s", "ns"
	Better Better  `json:"better"`
}

// Sample is what one execution of a workload gave.
type Sample struct {
	Metrics []Metric `json:"metrics"`
	// Ops counts the operations behind the metrics; zero when the workload
	// has no such notion. Event counts are divided by it.
	Ops    float64       `json:"ops"`
	Wall   time.Duration `json:"wall"` // guest CLOCK_MONOTONIC
	User   time.Duration `json:"user"`
	System time.Duration `json:"system"`
	// Switches counts voluntary context switches, Signals the timer signals
	// that the workload received; zero where nobody counted.
	Switches float64 `json:"switches,omitempty"`
	Signals  float64 `json:"signals,omitempty"`
	Version  string  `json:"version"` // e.g. "stress-ng 0.15.06"
}

// Metric returns the metric called name.
func (s Sample) Metric(name string) (Metric, bool) {
	i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return s.Metrics[i], true
}

// File is a file that a workload needs in the guest.
type File struct {
	Path string // absolute, in the guest
	Mode uint32 // permission bits
	Host string // file on the host to copy, followed through symbolic links
	Data []byte // content where Host is empty
}

// Params are the workload's settings in a job.
type Params struct {
	Args     map[string]string // long options without dashes, e.g. timer-freq: 20000
	Duration time.Duration     // of one execution
}

// Command is what the guest executes once.
type Command struct {
	Argv    []string
	Env     []string
	Timeout time.Duration // guest time after which it is killed
	// Comm is the pattern (fnmatch) of the thread names that do the work.
	Comm string
}

// Output is what one execution left behind in the guest.
type Output struct {
	Exit   int    // exit status, 128+signal when killed
	Stdout []byte // capped by the guest
	Stderr []byte
	Wall   time.Duration
	User   time.Duration
	System time.Duration
}

// Workload is a program that can be run in a guest.
type Workload interface {
	// Name is the registered name, e.g. "stress-ng/timer".
	Name() string
	// Files lists what must be in the guest, libraries included. A missing
	// program is the user's blame, with the package that provides it.
	Files() ([]File, error)
	// Version identifies the program on this host; it stays the same for a
	// whole walk.
	Version() (string, error)
	// Command builds the command line. Unknown or malformed parameters are
	// the user's blame.
	Command(Params) (Command, error)
	// Metrics lists the names that Parse can report, primary first.
	Metrics() []string
	// Exercises lists prefixes of the semantic probe's checks (package
	// probes) that are about interfaces this workload depends on, e.g.
	// "stale-signal", "posix-timer". When one of those checks differs
	// between two kernels it may be why the workload's numbers do.
	Exercises() []string
	// Parse reads one execution. An execution that failed or that the
	// workload itself calls unsound is the workload's blame.
	Parse(Output) (Sample, error)
}

// Counterpart is implemented by workloads that rely on something which the
// standard leaves open, and for which there is one about the same interfaces
// that does not.
type Counterpart interface {
	// Counterpart returns the registered name of the other workload, what of
	// the parameters it takes, and its metric that only a cost can move.
	Counterpart(Params) (name string, p Params, metric string)
}

// registry is filled by Register from the init functions of the sub-packages.
var registry = map[string]Workload{}

// Register makes w available to Lookup. It panics on a name taken twice.
func Register(w Workload) {
	if _, taken := registry[w.Name()]; taken {
		panic("workloads: " + w.Name() + " registered twice")
	}
	registry[w.Name()] = w
}

// Lookup returns the workload called name.
func Lookup(name string) (Workload, error) {
	if w, ok := registry[name]; ok {
		return w, nil
	}
	return nil, fmt.Errorf("unknown workload %q; known: %s", name, strings.Join(Names(), ", "))
}

// Names lists the registered workloads in alphabetical order.
func Names() []string {
	var names []string
	for n := range registry {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
