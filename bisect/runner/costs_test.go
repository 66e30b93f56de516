package runner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bisectd/bisect/journal"
)

func TestCosts(t *testing.T) {
	event := func(kind string, phase journal.Phase, data string) journal.Event {
		return journal.Event{Kind: kind, Phase: phase, Data: []byte(data)}
	}
	var c Costs
	err := c.Add([]journal.Event{
		event("build", journal.Begin, `{"Commit": "c"}`),
		event("build", journal.End, `{"took": 9000000000}`),
		event("build", journal.End, `{"took": 1000, "reused": true}`),
		event("build", journal.End, `{"took": 1000, "failure": "no"}`),
		event("boot", journal.End, `{"profile": "metric", "ending": "completed", "elapsed": 7000000000}`),
		event("boot", journal.End, `{"profile": "metric", "ending": "completed", "elapsed": 1000}`),
		event("boot", journal.End, `{"profile": "metric", "ending": "completed", "elapsed": 99000000000, "voided": ["steal"]}`),
		event("boot", journal.End, `{"profile": "metric", "ending": "hang", "elapsed": 99000000000}`),
		event("boot", journal.End, `{"profile": "trace", "ending": "completed", "elapsed": 9000000000}`),
		event("result", journal.End, `{}`),
	}, 3*time.Second)
	want := Costs{Builds: []time.Duration{9 * time.Second}, Boots: []time.Duration{4 * time.Second, 0}}
	if err != nil || !cmp.Equal(c, want) {
		t.Errorf("%+v, %v; want %+v", c, err, want)
	}
	for _, kind := range []string{"build", "boot"} {
		if err := c.Add([]journal.Event{event(kind, journal.End, `[]`)}, 0); err == nil {
			t.Errorf("a damaged %s passes", kind)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		all  []time.Duration
		want time.Duration
	}{{nil, 0}, {[]time.Duration{5}, 5}, {[]time.Duration{9, 1, 5}, 5}} {
		if got := Median(tt.all); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.all, got, tt.want)
		}
	}
}
