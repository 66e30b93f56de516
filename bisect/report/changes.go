package report

import (
	"fmt"

	"bisectd/bisect"
)

// changes lists what was found where that is more than one change: each with
// the part of the whole difference that it makes up.
func changes(p *page, r bisect.Result) {
	if len(r.Changes) < 2 {
		return
	}
	p.section("Changes of this range, by their part of the whole difference")
	for _, c := range r.Changes {
		share := "not in the metric"
		if c.Share != 0 {
			share = fmt.Sprintf("%.0f %%", 100*c.Share)
		}
		p.prose(fmt.Sprintf("  %-18s ", share), fmt.Sprintf("%s, %s", c.Class, c.FirstNew), 2)
	}
}
