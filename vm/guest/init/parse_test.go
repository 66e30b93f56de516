package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

const (
	startWithoutField = "name: hrtimer_start\nformat:\n\tfield:void * hrtimer;\toffset:8;\tsize:8;\tsigned:0;\n" +
		"\tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n"
	startWithField = startWithoutField + "\tfield:bool was_armed;\toffset:44;\tsize:1;\tsigned:0;\n"
)

func TestTrigger(t *testing.T) {
	tests := []struct{ format, keys, conditional, want string }{
		{startWithoutField, "hrtimer,function.sym", "was_armed", "hist:keys=hrtimer,function.sym:size=4096"},
		{startWithField, "hrtimer,function.sym", "was_armed", "hist:keys=hrtimer,function.sym,was_armed:size=4096"},
		{startWithField, "hrtimer", "", "hist:keys=hrtimer:size=4096"},
	}
	for _, tt := range tests {
		if got := trigger(tt.format, tt.keys, tt.conditional); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestTracer runs the tracer over a tree of plain files: one event is there,
// two mandatory ones are not and say so, the optional one is left out.
func TestTracer(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "events/timer/hrtimer_start")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"format": startWithField, "trigger": "", "hist": "{ } hitcount: 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tr := newTracer(root)
	tr.start()
	tr.stop()
	records := tr.read("step")
	if len(records) != 3 {
		t.Fatalf("%d records", len(records))
	}
	first := records[0]
	if first.Error != "" || first.Text != "{ } hitcount: 1\n" || first.Format != startWithField || first.Step != "step" {
		t.Errorf("got %+v", first)
	}
	for _, r := range records[1:] {
		if r.Error == "" {
			t.Errorf("%s: no error", r.Event)
		}
	}
}

func TestHighRes(t *testing.T) {
	tests := []struct {
		name, list string
		resolution int64
		want       bool
	}{
		{"all CPUs", "  .hres_active    : 1\n  .nohz_mode: 2\n  .hres_active    : 1\n", 1, true},
		{"one CPU is not", "  .hres_active    : 1\n  .hres_active    : 0\n", 1, false},
		{"no line, 1 ns", "Timer List Version: v0.9\n", 1, true},
		{"no line, jiffies", "", 4_000_000, false},
	}
	for _, tt := range tests {
		if got := highRes(tt.list, tt.resolution); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestProcessors(t *testing.T) {
	stat := "cpu  10 0 20 300 0 0 0 42 0 0\ncpu0 5 0 10 150 0 0 0 21 0 0\ncpu1 5 0 10 150 0 0 0 21 0 0\nintr 1\n"
	if online, steal := processors(stat); online != 2 || steal != 42 {
		t.Errorf("%d CPUs, %d ticks stolen", online, steal)
	}
	if online, steal := processors("cpu  1 2\ncpu0 1 2\n"); online != 1 || steal != 0 {
		t.Errorf("short lines: %d CPUs, %d ticks stolen", online, steal)
	}
}

func TestFindPort(t *testing.T) {
	class := t.TempDir()
	for device, name := range map[string]string{"vport0p1": "other\n", "vport1p1": "org.bisectd.result.0\n"} {
		if err := os.Mkdir(filepath.Join(class, device), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, device, "name"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if device, err := findPort(class, "org.bisectd.result.0"); device != "vport1p1" || err != nil {
		t.Errorf("%q, %v", device, err)
	}
	if _, err := findPort(class, "missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a port that is not there: %v", err)
	}
}

func TestReferenceLoops(t *testing.T) {
	if s, c := median(spin), median(syscalls); s <= 0 || c <= s {
		t.Errorf("spin %v ns, system call %v ns", s, c)
	}
}
