// Package probes holds the C program timerprobe, which reports from user space
// and without tracing how a kernel's timers behave: the semantic record of a
// boot, and small workloads on timers that are used as documented.
package probes

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"bisectd/blame"
	"bisectd/workloads"
)

//go:generate gcc -O2 -static -D_GNU_SOURCE -Wall -Wextra -Werror -o bin/timerprobe src/timerprobe.c src/record.c src/signals.c src/timers.c src/late.c src/mq.c -lrt

// The program is built by go generate and not kept in the repository: a build
// without it works and says so when the probe is needed.
//
//go:embed all:bin
var bin embed.FS

// GuestPath is where the program lies in the guest.
const GuestPath = "/bisectd/timerprobe"

// comm is the program's thread name.
const comm = "timerprobe"

// semanticsTimeout is three times what the program takes at most (it begins no
// new check after 18 s): one that runs into it has met a sleep without end.
const semanticsTimeout = time.Minute

// buckets is the most that the program's histograms have.
const buckets = 40

// Binary returns the static executable. It is the infrastructure's fault when
// this program was built without.
func Binary() ([]byte, error) {
	data, err := bin.ReadFile("bin/timerprobe")
	if err != nil {
		return nil, blame.Errorf(blame.Infrastructure,
			"built without the timer probe: run go generate ./workloads/probes (needs gcc and a static libc) and rebuild")
	}
	return data, nil
}

// Files lists what the program needs in the guest.
func Files() ([]workloads.File, error) {
	data, err := Binary()
	if err != nil {
		return nil, err
	}
	return []workloads.File{{Path: GuestPath, Mode: 0o755, Data: data}}, nil
}

// Version identifies the program by its content.
func Version() (string, error) {
	data, err := Binary()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("timerprobe %x", sha256.Sum256(data))[:len("timerprobe ")+12], nil
}

// Command runs the semantic checks: all of them, or those of the given names
// with what belongs to them (the control of a marker, the other bound of an
// interface), which takes a fraction of the time.
func Command(only ...string) workloads.Command {
	argv := []string{GuestPath, "--mode=semantics"}
	if len(only) > 0 {
		argv = append(argv, "--only="+strings.Join(only, ","))
	}
	return workloads.Command{
		Argv:    argv,
		Timeout: semanticsTimeout,
		Comm:    comm,
	}
}

// Parse reads the line that Command prints. Anything but one complete record
// is the workload's blame.
func Parse(stdout []byte) (workloads.ProbeRecord, error) {
	var record struct {
		Mode    string `json:"mode"`
		Elapsed int64  `json:"elapsed_ns"`
		workloads.ProbeRecord
	}
	if err := decode(stdout, &record); err != nil {
		return workloads.ProbeRecord{}, err
	}
	if record.Mode != "semantics" {
		return workloads.ProbeRecord{}, blame.Errorf(blame.Workload, "timerprobe: record of mode %q", record.Mode)
	}
	if err := check(record.ProbeRecord); err != nil {
		return workloads.ProbeRecord{}, blame.Errorf(blame.Workload, "timerprobe: %w", err)
	}
	return record.ProbeRecord, nil
}

// check refuses records that could not have come from the program: an unknown
// or repeated name would otherwise compare as a difference between kernels.
func check(r workloads.ProbeRecord) error {
	if len(r.Markers)+len(r.Invariants) == 0 {
		return fmt.Errorf("record without markers and invariants")
	}
	seen := map[string]bool{}
	once := func(name string) error {
		if Meaning(name) == "" || seen[name] {
			return fmt.Errorf("unknown or repeated name %q", name)
		}
		seen[name] = true
		return nil
	}
	for _, m := range r.Markers {
		if err := once(m.Name); err != nil {
			return err
		}
	}
	for _, v := range r.Invariants {
		if err := once(v.Name); err != nil {
			return err
		}
		switch v.Result {
		case workloads.Pass, workloads.Fail, workloads.NotMeasured:
		default:
			return fmt.Errorf("%s: result %q", v.Name, v.Result)
		}
		if len(v.Histogram) > buckets || slices.ContainsFunc(v.Histogram, func(n int) bool { return n < 0 }) {
			return fmt.Errorf("%s: histogram %d", v.Name, v.Histogram)
		}
	}
	return nil
}

// decode reads exactly one JSON value without unknown fields.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return blame.Errorf(blame.Workload, "timerprobe: unreadable output: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return blame.Errorf(blame.Workload, "timerprobe: text after the record")
	}
	return nil
}
