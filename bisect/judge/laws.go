package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bisectd/bisect"
	"bisectd/blame"
	"bisectd/workloads/probes"
)

// Domain says what a law is about and so what follows from breaking it.
type Domain string

// The domains.
const (
	Conditions Domain = "conditions" // of a measurement: the boot is void
	Workload   Domain = "workload"   // its numbers say nothing: no verdict
	Instrument Domain = "instrument" // the trace is thrown away, never the kernel
	Promise    Domain = "promise"    // newly broken: a regression
	Marker     Domain = "marker"     // POSIX leaves it open: a flip is a change of behaviour
	Comparison Domain = "comparison" // of two kernels: what a number counts
)

// Law is something that observations are held against.
type Law struct {
	ID      string  // V0 to V4 are about measurements, K1 to K12 about kernels
	Name    string  // of the check, in reports and under judge.checks of a job
	Domain  Domain  //
	Formula string  // in the letters of docs/semantics.md
	Bound   float64 // tolerance, in Unit; an empty unit says that there is nothing to tolerate
	Unit    string
	Source  string // where law and bound come from
	Meaning string // one sentence for people
	breach  check
}

// Case is what a law is held against.
type Case struct {
	VCPUs int // asked for
	// New are the boots that are held to the law and Old those of the kernel
	// before it, for laws that compare.
	Old, New bisect.Observations
}

// check says how a case breaks a law, or nothing: it keeps it, or what the law
// is about was not measured.
type check func(j *Judge, c Case, bound float64) string

// Breach says how a case breaks a law under the rules of the job, or nothing.
func (j *Judge) Breach(l Law, c Case) string {
	if j.Checks.off(l.Name) {
		return ""
	}
	c.Old, c.New = j.ruled(c.Old), j.ruled(c.New)
	return l.breach(j, c, j.Checks.bound(l.Name, l.Bound))
}

// first says how a case breaks the first of some laws that it breaks, or
// nothing.
func (j *Judge) first(laws []Law, c Case) string {
	for _, l := range laws {
		if why := j.Breach(l, c); why != "" {
			return why
		}
	}
	return ""
}

// Overrides are a job's changes of laws, by name.
type Overrides map[string]bisect.Override

// CheckSignal refuses a signal for jobs that no walk can go on.
func CheckSignal(name string) error {
	known := []string{bisect.AutoSignal, bisect.OnlyMetric, bisect.OnlyCrash}
	if name == "" || slices.Contains(known, name) || probes.Meaning(name) != "" {
		return nil
	}
	for _, l := range Laws() {
		if probes.Meaning(l.Name) != "" {
			known = append(known, l.Name)
		}
	}
	return blame.Errorf(blame.User, "judge.signal: no signal is called %q; there are %s", name, strings.Join(known, ", "))
}

// Check refuses names that no law has, and bounds of laws that have none.
func (o Overrides) Check() error {
	laws := map[string]Law{}
	for _, l := range Laws() {
		laws[l.Name] = l
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		l, ok := laws[name]
		if !ok {
			return blame.Errorf(blame.User, "%sjudge.checks: no check is called %q; there are %s", o[name].At, name,
				strings.Join(slices.Sorted(maps.Keys(laws)), ", "))
		}
		if o[name].Bound != nil && l.Unit == "" {
			return blame.Errorf(blame.User, "%sjudge.checks: %s has no bound; it can be turned off", o[name].At, name)
		}
	}
	return nil
}

func (o Overrides) off(name string) bool { return o[name].Off }

// bound returns the job's bound of a law, or its own.
func (o Overrides) bound(name string, own float64) float64 {
	if v := o[name]; v.Bound != nil {
		return *v.Bound
	}
	return own
}

// Describe says what a job has changed, one sentence a check.
func (o Overrides) Describe() []string {
	var said []string
	for name, v := range o {
		if v.Off {
			said = append(said, name+" is turned off by the job")
		} else if v.Bound != nil {
			said = append(said, fmt.Sprintf("%s has the bound %g by the job", name, *v.Bound))
		}
	}
	slices.Sort(said)
	return said
}
