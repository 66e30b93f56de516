package hrtimer

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"bisectd/blame"
	"bisectd/workloads"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// kernels have a directory each with the format and hist files of a run of
// stress-ng --timer 1 --timer-freq 20000 for 2 s in an emulated guest of two
// vCPUs.
var kernels = []string{"6.1.176", "6.12.117", "6.17.13", "7.3.4"}

func recorded(t testing.TB, kernel string) []Hist {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", kernel, "*.hist"))
	if err != nil || len(paths) < 3 {
		t.Fatalf("%d histograms of %s: %v", len(paths), kernel, err)
	}
	var hists []Hist
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		format, err := os.ReadFile(strings.TrimSuffix(p, "hist") + "format")
		if err != nil {
			t.Fatal(err)
		}
		hists = append(hists, Hist{"timer/" + strings.TrimSuffix(filepath.Base(p), ".hist"), string(format), string(text)})
	}
	return hists
}

func TestParseRecordings(t *testing.T) {
	for _, kernel := range kernels {
		t.Run(kernel, func(t *testing.T) {
			tally, err := Parse(recorded(t, kernel))
			if err != nil {
				t.Fatal(err)
			}
			for name, l := range tally.Callbacks {
				if !Conserved(l, tally) {
					t.Errorf("%s is not conserved: %+v", name, l)
				}
			}
			got, err := json.MarshalIndent(tally, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", kernel, "tally.golden")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// hist writes a histogram as the kernel does.
func hist(entries ...string) string {
	hits := 0
	text := "# event histogram\n#\n\n"
	for _, e := range entries {
		keys, count, _ := strings.Cut(e, " = ")
		var n int
		fmt.Sscan(count, &n)
		hits += n
		text += fmt.Sprintf("{ %s } hitcount: %10d\n", keys, n)
	}
	return text + fmt.Sprintf("\nTotals:\n    Hits: %d\n    Entries: %d\n    Dropped: 0\n", hits, len(entries))
}

const (
	armedFormat = "name: hrtimer_start\n\tfield:bool was_armed;\toffset:44;\tsize:1;\tsigned:0;\n"
	plainFormat = "name: hrtimer_start\n"
)

func hists(format, starts, expires, cancels, expired string) []Hist {
	h := []Hist{{start, format, starts}, {expire, "", expires}, {"timer/" + cancel, "", cancels}}
	if expired != "" {
		h = append(h, Hist{startExpired, "", expired})
	}
	return h
}

func TestParse(t *testing.T) {
	tests := []struct {
		name      string
		hists     []Hist
		want      workloads.Tally
		conserved bool
	}{
		{
			name: "was_armed",
			hists: hists(armedFormat,
				hist("hrtimer: 00000000aa, function: [ffffffff81000000] fn , was_armed:          0 = 10",
					"hrtimer: 00000000aa, function: [ffffffff81000000] fn , was_armed:          1 = 5"),
				hist("function: [ffffffff81000000] fn = 7"), hist("hrtimer: 00000000aa = 2"), hist("hrtimer: 00000000aa = 1")),
			want: workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
				"fn": {Start: 15, Expire: 8, Cancel: 2, Rearm: 5, Timers: 1}}},
			conserved: true,
		},
		{
			// 10 starts, 6 expiries, 3 re-arms, 1 cancel: 10 cancel events.
			name: "cancel at every removal",
			hists: hists(plainFormat, hist("hrtimer: 7, function: [ffffffff81000000] fn = 10"),
				hist("function: [ffffffff81000000] fn = 6"), hist("hrtimer: 7 = 10"), ""),
			want: workloads.Tally{Callbacks: map[string]workloads.Lives{
				"fn": {Start: 10, Expire: 6, Cancel: 4, Timers: 1}}},
			conserved: true,
		},
		{
			name: "modules and clones",
			hists: hists(armedFormat,
				hist("hrtimer: 1, function: [ffffffffc0000010] fn.isra.0 [kvm] , was_armed: 0 = 1",
					"hrtimer: 2, function: [ffffffff81000000] fn+0x0/0x40 , was_armed: 0 = 1"),
				hist("function: [ffffffffc0000010] fn.isra.0 [kvm] = 2"), hist(), ""),
			want: workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
				"fn": {Start: 2, Expire: 2, Timers: 2}}},
			conserved: true,
		},
		{
			name: "shared and unknown timers are not guessed at",
			hists: hists(armedFormat,
				hist("hrtimer: 1, function: [ff] a, was_armed: 0 = 40", "hrtimer: 1, function: [ff] b, was_armed: 0 = 40",
					"hrtimer: 2, function: [ff] a, was_armed: 0 = 1"),
				hist(), hist("hrtimer: 1 = 80", "hrtimer: 2 = 1", "hrtimer: 3 = 2"), ""),
			want: workloads.Tally{WasArmed: true, Unjoined: 82, Callbacks: map[string]workloads.Lives{
				"a": {Start: 41, Cancel: 1, Timers: 2}, "b": {Start: 40, Timers: 1}}},
			conserved: true,
		},
		{
			name: "lost expiries",
			hists: hists(armedFormat, hist("hrtimer: 1, function: [ff] posix_timer_fn, was_armed: 0 = 10000"),
				hist("function: [ff] posix_timer_fn = 9980"), hist(), ""),
			want: workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
				"posix_timer_fn": {Start: 10000, Expire: 9980, Timers: 1}}},
		},
		{
			name: "ticks at the ends",
			hists: hists(armedFormat, hist("hrtimer: 1, function: [ff] tick_nohz_handler, was_armed: 0 = 1232"),
				hist("function: [ff] tick_nohz_handler = 1212"), hist(), ""),
			want: workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
				"tick_nohz_handler": {Start: 1232, Expire: 1212, Timers: 1}}},
			conserved: true,
		},
		{
			name: "lost ticks",
			hists: hists(armedFormat, hist("hrtimer: 1, function: [ff] tick_nohz_handler, was_armed: 0 = 10000"),
				hist("function: [ff] tick_nohz_handler = 9400"), hist(), ""),
			want: workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
				"tick_nohz_handler": {Start: 10000, Expire: 9400, Timers: 1}}},
		},
		{
			name: "expiries without a start",
			hists: hists(armedFormat, hist("hrtimer: 1, function: [ff] fn, was_armed: 0 = 100"),
				hist("function: [ff] fn = 200"), hist(), ""),
			want: workloads.Tally{WasArmed: true, Callbacks: map[string]workloads.Lives{
				"fn": {Start: 100, Expire: 200, Timers: 1}}},
		},
		{
			name: "dropped",
			hists: hists(armedFormat, strings.Replace(hist(), "Dropped: 0", "Dropped: 3", 1),
				hist("function: [ff] fn = 1"), hist(), ""),
			want: workloads.Tally{WasArmed: true, Dropped: 3, Callbacks: map[string]workloads.Lives{"fn": {Expire: 1}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.hists)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(workloads.Lives{}, "Edge")); diff != "" {
				t.Error(diff)
			}
			for name, l := range got.Callbacks {
				if Conserved(l, got) != tt.conserved {
					t.Errorf("%s conserved: %v, want %v", name, !tt.conserved, tt.conserved)
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	good := hist("hrtimer: 1, function: [ff] fn, was_armed: 0 = 1")
	tests := map[string][]Hist{
		"no trace":          nil,
		"no cancels":        hists(armedFormat, good, hist(), hist(), "")[:2],
		"no totals":         hists(armedFormat, good[:strings.Index(good, "Totals")], hist(), hist(), ""),
		"entry lost":        hists(armedFormat, strings.Replace(good, "{", "(", 1), hist(), hist(), ""),
		"hits lost":         hists(armedFormat, strings.Replace(good, "Hits: 1", "Hits: 2", 1), hist(), hist(), ""),
		"keys of the other": hists(armedFormat, hist("hrtimer: 1, function: [ff] fn = 1"), hist(), hist(), ""),
		"more keys":         hists(plainFormat, good, hist(), hist(), ""),
		"no function":       hists(armedFormat, good, hist("hrtimer: 1 = 1"), hist(), ""),
		"no timer":          hists(armedFormat, good, hist(), hist("function: [ff] fn = 1"), ""),
		"twice":             append(hists(armedFormat, good, hist(), hist(), ""), Hist{expire, "", hist()}),
		"huge":              hists(armedFormat, good, hist(), strings.Replace(hist(), "Hits: ", "Hits: 99999999999999999999", 1), ""),
	}
	for name, h := range tests {
		if _, err := Parse(h); err == nil || blame.Of(err) != blame.Environment {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse(hists(armedFormat, good, hist(), hist(), "")); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, kernel := range kernels {
		text := map[string]string{}
		for _, h := range recorded(f, kernel) {
			text[filepath.Base(h.Event)] = h.Text
			if filepath.Base(h.Event) == start {
				text["format"] = h.Format
			}
		}
		f.Add(text["format"], text[start], text[expire], text[cancel], text[startExpired])
	}
	f.Fuzz(func(t *testing.T, format, starts, expires, cancels, expired string) {
		tally, err := Parse(hists(format, starts, expires, cancels, expired))
		if err != nil {
			return
		}
		for name, l := range tally.Callbacks {
			if name == "" || !tally.WasArmed && l.Rearm > 0 {
				t.Errorf("%q: %+v", name, l)
			}
		}
	})
}
