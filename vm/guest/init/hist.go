package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bisectd/vm/guest/proto"
)

// histEntries is the capacity of one histogram. The kernel reports what did
// not fit ("Drops:"), the host judges that.
const histEntries = 4096

// traced are the events of a traced step and the keys of their histograms
// (Documentation/trace/histogram.rst). A field in conditional is a further key
// where the kernel's event has it.
var traced = []struct {
	event, keys, conditional string
	optional                 bool // not all kernels have the event
}{
	{event: "timer/hrtimer_start", keys: "hrtimer,function.sym", conditional: "was_armed"},
	{event: "timer/hrtimer_expire_entry", keys: "function.sym"},
	{event: "timer/hrtimer_cancel", keys: "hrtimer"},
	{event: "timer/hrtimer_start_expired", keys: "hrtimer", optional: true},
}

// histogram is one trigger that is set.
type histogram struct {
	dir     string // of the event
	trigger string
	file    *os.File // the event's trigger file, once it is open
	record  proto.Hist
}

// tracer counts timer events while a step runs.
type tracer struct {
	histograms []*histogram
}

// newTracer sets the triggers, paused: allocating the histograms and patching
// the trace points takes milliseconds that do not belong to the step. What
// fails is told in the records.
func newTracer(root string) *tracer {
	t := &tracer{histograms(root)}
	for _, h := range t.histograms {
		h.set(h.trigger + ":pause")
	}
	return t
}

// histograms returns the histograms for the events that the kernel has.
func histograms(root string) []*histogram {
	var list []*histogram
	for _, e := range traced {
		h := &histogram{dir: filepath.Join(root, "events", e.event), record: proto.Hist{Event: e.event}}
		format, err := os.ReadFile(filepath.Join(h.dir, "format"))
		if errors.Is(err, os.ErrNotExist) && e.optional {
			continue
		}
		if err != nil {
			h.record.Error = err.Error()
		}
		h.record.Format = string(format)
		h.trigger = trigger(h.record.Format, e.keys, e.conditional)
		list = append(list, h)
	}
	return list
}

// trigger returns the text that sets a histogram on an event with that format.
func trigger(format, keys, conditional string) string {
	if conditional != "" && strings.Contains(format, " "+conditional+";") {
		keys += "," + conditional
	}
	return fmt.Sprintf("hist:keys=%s:size=%d", keys, histEntries)
}

// set writes one command to the trigger file of the event.
func (h *histogram) set(command string) {
	if h.record.Error != "" {
		return
	}
	var err error
	if h.file == nil {
		h.file, err = os.OpenFile(filepath.Join(h.dir, "trigger"), os.O_WRONLY, 0)
	}
	if err == nil {
		_, err = h.file.WriteString(command)
	}
	if err != nil {
		h.record.Error = fmt.Sprintf("%s: %v", command, err)
	}
}

// start lets the histograms count, that of the starts last: the end of a timer
// whose start was counted is counted too. Ends without a start are those of
// timers armed before.
func (t *tracer) start() {
	for _, h := range slices.Backward(t.histograms) {
		h.set(h.trigger + ":continue")
	}
}

// stop freezes them, that of the starts first.
func (t *tracer) stop() {
	for _, h := range t.histograms {
		h.set(h.trigger + ":pause")
	}
}

// read returns the histograms as the kernel prints them.
func (t *tracer) read(step string) []proto.Hist {
	var records []proto.Hist
	for _, h := range t.histograms {
		r := h.record
		r.Step = step
		if r.Error == "" {
			text, err := os.ReadFile(filepath.Join(h.dir, "hist"))
			r.Text = string(text)
			if err != nil {
				r.Error = err.Error()
			}
		}
		records = append(records, r)
	}
	return records
}

// remove takes the triggers away, so that an untraced step after this one runs
// without them.
func (t *tracer) remove() {
	for _, h := range t.histograms {
		h.set("!" + h.trigger)
		if h.file != nil {
			h.file.Close()
		}
	}
}
