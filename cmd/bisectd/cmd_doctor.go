package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"

	"bisectd/kbuild"
	"bisectd/vm/guest"
	"bisectd/vm/qemu"
	"bisectd/workloads"
	"bisectd/workloads/probes"
)

type doctorCmd struct{}

// check is one line of the doctor's table. A missing need makes the host
// unfit, a missing wish only slow.
type check struct {
	name   string
	need   bool
	detail string
	err    error
}

// Run prints what this host offers and what it lacks.
func (doctorCmd) Run(ctx context.Context, paths *Paths, out io.Writer) error {
	unfit := false
	for _, c := range diagnose(ctx, paths) {
		state, detail := "ok", c.detail
		if c.err != nil {
			state, detail = "slow", c.err.Error()
			if c.need {
				state, unfit = "MISSING", true
			}
		}
		if err := say(out, "%-8s %-14s %s\n", state, c.name, detail); err != nil {
			return err
		}
	}
	if unfit {
		return statusError{exitUnfit}
	}
	return nil
}

func diagnose(ctx context.Context, paths *Paths) []check {
	checks := []check{
		{name: "cores", need: true, detail: fmt.Sprint(runtime.NumCPU())},
		{name: "disk", need: true, detail: paths.Cache, err: paths.prepare()},
		{name: "build tools", need: true, detail: "complete", err: kbuild.Check(ctx)},
	}
	ccache, err := exec.LookPath("ccache")
	checks = append(checks, check{name: "ccache", detail: ccache, err: err})
	_, err = guest.Agent()
	checks = append(checks, check{name: "guest agent", need: true, detail: "embedded", err: err})
	_, err = probes.Binary()
	checks = append(checks, check{name: "probe", need: true, detail: "embedded", err: err})
	launcher, err := qemu.Find(ctx)
	emulator := check{name: "qemu", need: true, err: err}
	if err == nil {
		emulator.detail = launcher.Version()
	}
	checks = append(checks, emulator)
	for _, name := range workloads.Names() {
		w, err := workloads.Lookup(name)
		if err != nil {
			continue
		}
		version, err := w.Version()
		checks = append(checks, check{name: name, need: name == "stress-ng/timer", detail: version, err: err})
	}
	return checks
}
