package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"bisectd/bisect"
	"bisectd/bisect/journal"
)

// Costs are what builds and boots have taken on this host.
type Costs struct {
	Builds []time.Duration // of kernels that were compiled
	// Boots are those of the workload without tracing, less the time that the
	// workload itself was to run for.
	Boots []time.Duration
}

// Add takes in the events of a run whose boots ran the workload so long.
func (c *Costs) Add(events []journal.Event, workload time.Duration) error {
	for _, e := range events {
		if err := c.add(e, workload); err != nil {
			return fmt.Errorf("journal: event %d (%s): %w", e.Seq, e.Kind, err)
		}
	}
	return nil
}

func (c *Costs) add(e journal.Event, workload time.Duration) error {
	switch {
	case e.Phase != journal.End:
	case e.Kind == buildEvent:
		var rec buildRecord
		if err := json.Unmarshal(e.Data, &rec); err != nil {
			return err
		}
		if !rec.Reused && rec.Failure == "" {
			c.Builds = append(c.Builds, rec.Took)
		}
	case e.Kind == bootEvent:
		var o bisect.Observation
		if err := json.Unmarshal(e.Data, &o); err != nil {
			return err
		}
		if o.Profile == bisect.MetricBoot && o.Ending == bisect.Completed && len(o.Voided) == 0 {
			c.Boots = append(c.Boots, max(0, o.Elapsed-workload))
		}
	}
	return nil
}

// Median returns the middle of some durations, zero of none.
func Median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
