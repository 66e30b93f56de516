package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"bisectd/bisect"
	"bisectd/bisect/journal"
	"bisectd/bisect/judge"
	"bisectd/kbuild"
)

// Replay is a bisect.Tester that builds and boots nothing: it answers from
// the events of a run. Where a boot was made several times, under another
// compiler or another QEMU, the last one counts.
type Replay struct {
	kernels map[source]buildRecord
	boots   map[stored]bisect.Observation
	used    map[stored]bool
	checks  judge.Overrides
}

var _ bisect.Tester = (*Replay)(nil)

// source is what the kernels of a run are built from.
type source struct {
	tree    string
	variant bisect.Variant
}

// stored is what tells the boots of a run apart. Commits whose kernels hold
// the same code share them.
type stored struct {
	signature string
	vcpus     int
	profile   bisect.Profile
	ordinal   int
	only      string
}

// MissingError is a boot that was asked for and that the run does not have.
type MissingError struct {
	Boot bisect.Boot
	Why  string
}

func (e *MissingError) Error() string {
	b := e.Boot
	return fmt.Sprintf("%s boot %d of %s with %d vCPU %s", b.Profile, b.Ordinal, b.Commit, b.VCPUs, e.Why)
}

// NewReplay reads the events of one run, in their order. Checks are the job's,
// which say what boots count.
func NewReplay(events []journal.Event, checks judge.Overrides) (*Replay, error) {
	r := &Replay{kernels: map[source]buildRecord{}, boots: map[stored]bisect.Observation{}, used: map[stored]bool{},
		checks: checks}
	sources := map[string]source{} // by the key of the build
	for _, e := range events {
		if err := r.read(e, sources); err != nil {
			return nil, fmt.Errorf("journal: event %d (%s): %w", e.Seq, e.Kind, err)
		}
	}
	return r, nil
}

func (r *Replay) read(e journal.Event, sources map[string]source) error {
	switch {
	case e.Kind == buildEvent && e.Phase == journal.Begin:
		var spec kbuild.Spec
		if err := json.Unmarshal(e.Data, &spec); err != nil {
			return err
		}
		sources[e.Key] = source{spec.Tree, variantOf(spec)}
	case e.Kind == buildEvent:
		var rec buildRecord
		if err := json.Unmarshal(e.Data, &rec); err != nil {
			return err
		}
		r.kernels[sources[e.Key]] = rec
	case e.Kind == bootEvent && e.Phase == journal.End:
		var o bisect.Observation
		if err := json.Unmarshal(e.Data, &o); err != nil {
			return err
		}
		r.boots[stored{o.Kernel.Signature, o.VCPUs, o.Profile, o.Ordinal, o.Only}] = o
	}
	return nil
}

// variantOf tells the variant of a build, as Runner.build puts it into it.
func variantOf(spec kbuild.Spec) bisect.Variant {
	if n := len(spec.Fragments); n > 0 && spec.Fragments[n-1] == paddedFragment {
		return bisect.Padded
	}
	return bisect.Plain
}

// Observe returns what the run has observed, or a *MissingError. A boot that
// the rules of now would have thrown away is missing, too.
func (r *Replay) Observe(_ context.Context, b bisect.Boot) (bisect.Observation, error) {
	built, ok := r.kernels[source{b.Commit.Tree, b.Variant}]
	if !ok {
		return bisect.Observation{}, &MissingError{b, "was not made: the run has not built it"}
	}
	if built.Failure != "" {
		return noBuild(b, built.Failure), nil
	}
	id := stored{built.Kernel.Signature, b.VCPUs, b.Profile, b.Ordinal, b.Only}
	o, ok := r.boots[id]
	if !ok {
		return o, &MissingError{b, "was not made"}
	}
	if o.Ending == bisect.Completed {
		if why := r.checks.Gate(o.Fingerprint, b.VCPUs); why != "" {
			return o, &MissingError{b, "would be thrown away now: " + why}
		}
	}
	r.used[id] = true
	o.Commit = b.Commit.ID
	return o, nil
}

// Used returns how many of the run's boots were asked for, and how many it
// has.
func (r *Replay) Used() (used, all int) { return len(r.used), len(r.boots) }

// noBuild is the observation of a commit that does not build.
func noBuild(b bisect.Boot, failure string) bisect.Observation {
	return bisect.Observation{Commit: b.Commit.ID, VCPUs: b.VCPUs, Profile: b.Profile, Ordinal: b.Ordinal,
		Ending: bisect.NoBuild, Detail: failure}
}
