package runner

import (
	"errors"
	"strings"
	"testing"

	"bisectd/bisect"
	"bisectd/bisect/journal"
	"bisectd/bisect/judge"
	"bisectd/blame"
	"bisectd/vm"
)

// record makes the boots in a real journal and returns its events.
func record(t *testing.T, b bench, boots ...bisect.Boot) []journal.Event {
	t.Helper()
	store, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run, err := store.Run(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	b.Journal = run
	for _, boot := range boots {
		if _, err := b.Observe(t.Context(), boot); err != nil {
			t.Fatal(err)
		}
	}
	events, err := run.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestReplay(t *testing.T) {
	b := newBench(t, sound("tsc"), speaks(vm.Panicked, "oops"))
	b.builder.errors["c3"] = blame.Errorf(blame.Kernel, "a.c:1: error: no such thing")
	replay, err := NewReplay(record(t, b, metric("c1", "t1", 0), metric("c2", "t2", 0), metric("c3", "t3", 0)), nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		boot    bisect.Boot
		ending  bisect.Ending
		missing string
	}{
		{"made", metric("c1", "t1", 0), bisect.Completed, ""},
		{"of another commit with the same tree", metric("c9", "t1", 0), bisect.Completed, ""},
		{"crashed", metric("c2", "t2", 0), bisect.Crashed, ""},
		{"does not build", metric("c3", "t3", 0), bisect.NoBuild, ""},
		{"not made", metric("c1", "t1", 1), "", `metric boot 1 of c1 ("") with 1 vCPU was not made`},
		{"not built", metric("c4", "t4", 0), "", "the run has not built it"},
	}
	for _, tt := range tests {
		o, err := replay.Observe(t.Context(), tt.boot)
		var missing *MissingError
		switch {
		case tt.missing == "" && (err != nil || o.Ending != tt.ending || o.Commit != tt.boot.Commit.ID):
			t.Errorf("%s: %s of %s, %v; want %s", tt.name, o.Ending, o.Commit, err, tt.ending)
		case tt.missing != "" && (!errors.As(err, &missing) || !strings.Contains(err.Error(), tt.missing)):
			t.Errorf("%s: %v; want %q", tt.name, err, tt.missing)
		}
	}
	if used, all := replay.Used(); used != 2 || all != 2 {
		t.Errorf("used %d of %d boots, want 2 of 2", used, all)
	}
}

// TestReplayHoldsBootsAgainstTheGate stores a boot that passed a gate of
// earlier rules.
func TestReplayHoldsBootsAgainstTheGate(t *testing.T) {
	events := record(t, newBench(t, sound("tsc")), metric("c1", "t1", 0))
	for i := range events {
		events[i].Data = []byte(strings.ReplaceAll(string(events[i].Data), `"tsc"`, `"hpet"`))
	}
	replay, err := NewReplay(events, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Observe(t.Context(), metric("c1", "t1", 0)); err == nil ||
		!strings.Contains(err.Error(), "would be thrown away now") {
		t.Errorf("error %v, want the boot to be refused", err)
	}
	replay, err = NewReplay(events, judge.Overrides{"clocksource": {Off: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Observe(t.Context(), metric("c1", "t1", 0)); err != nil {
		t.Errorf("error %v although the job has the check off", err)
	}
}

// TestReplayTellsVariantsApart has one tree built as the job says, and with its
// functions aligned.
func TestReplayTellsVariantsApart(t *testing.T) {
	event := func(kind, key string, phase journal.Phase, data string) journal.Event {
		return journal.Event{Kind: kind, Key: key, Phase: phase, Data: []byte(data)}
	}
	var events []journal.Event
	for key, fragments := range map[string]string{"plain": `["guest"]`, "padded": `["guest", "padded"]`} {
		events = append(events, event(buildEvent, key, journal.Begin, `{"Tree": "t1", "Fragments": `+fragments+`}`),
			event(buildEvent, key, journal.End, `{"kernel": {"signature": "`+key+`"}}`),
			event(bootEvent, key, journal.End, `{"vcpus": 1, "profile": "metric", "ending": "crash", "detail": "`+key+
				`", "kernel": {"signature": "`+key+`"}}`))
	}
	replay, err := NewReplay(events, nil)
	if err != nil {
		t.Fatal(err)
	}
	for variant, want := range map[bisect.Variant]string{bisect.Plain: "plain", bisect.Padded: "padded"} {
		boot := metric("c1", "t1", 0)
		boot.Variant = variant
		if o, err := replay.Observe(t.Context(), boot); err != nil || o.Detail != want {
			t.Errorf("%q: %q, %v; want %q", variant, o.Detail, err, want)
		}
	}
}

func TestReplayDamaged(t *testing.T) {
	for _, kind := range []string{buildEvent, bootEvent} {
		for _, phase := range []journal.Phase{journal.Begin, journal.End} {
			_, err := NewReplay([]journal.Event{{Seq: 7, Kind: kind, Phase: phase, Data: []byte(`[]`)}}, nil)
			if read := kind == buildEvent || phase == journal.End; read != (err != nil) {
				t.Errorf("%s %s: error %v", kind, phase, err)
			}
		}
	}
}
