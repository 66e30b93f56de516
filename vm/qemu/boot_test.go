package qemu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bisectd/vm"
	"bisectd/vm/guest/proto"
)

// records returns those of one kind.
func records(o vm.Outcome, kind proto.Kind) []proto.Record {
	var found []proto.Record
	for _, r := range o.Records {
		if r.Kind == kind {
			found = append(found, r.Record)
		}
	}
	return found
}

// TestBoot runs steps on one and two vCPUs, and holds the guest to what every
// measurement relies on: clock source, resolution, number of CPUs.
func TestBoot(t *testing.T) {
	image := kernelImage(t)
	for _, vcpus := range []int{1, 2} {
		steps := []proto.Step{
			{ID: "shell", Argv: []string{"sh", "-c", "echo $GREETING; echo err >&2; exit 7"}, Env: []string{"GREETING=hello"}},
			{ID: "sleeper", Argv: []string{"sleep", "1"}, Timeout: 60_000, Trace: true},
			{ID: "endless", Argv: []string{"sh", "-c", "sleep 3600"}, Timeout: 300},
			{ID: "missing", Argv: []string{"/no/such/program"}},
		}
		cfg := machine(t, vcpus, initrd(t, steps...))
		cfg.Append = []string{"bisectd.test=1"}
		o, err := realQEMU(t).Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d vCPUs, %s: %v to the agent, %v in all", vcpus, image, o.Boot, o.Total)
		if o.Ending != vm.Completed || o.Detail != "" {
			t.Fatalf("%s: %s", o.Ending, o.Detail)
		}
		checkEnds(t, o, len(steps))
		checkFingerprints(t, o, vcpus)
		checkSteps(t, o)
		checkHistograms(t, o)
	}
}

func checkEnds(t *testing.T, o vm.Outcome, steps int) {
	t.Helper()
	first, last := o.Records[0], o.Records[len(o.Records)-1]
	if first.Kind != proto.KindHello || first.Hello.ID != t.Name() || first.Hello.Version != proto.Version {
		t.Errorf("first record: %+v", first)
	}
	if last.Kind != proto.KindEnd || last.End.ID != t.Name() || last.End.Steps != steps {
		t.Errorf("last record: %+v", last)
	}
	if o.Boot <= 0 || o.Boot != first.At || o.Total < last.At {
		t.Errorf("boot %v, total %v, last record at %v", o.Boot, o.Total, last.At)
	}
	if clocks := records(o, proto.KindClock); len(clocks) != 2*steps+2 {
		t.Errorf("%d clocks", len(clocks))
	}
}

func checkFingerprints(t *testing.T, o vm.Outcome, vcpus int) {
	t.Helper()
	fingerprints := records(o, proto.KindFingerprint)
	if len(fingerprints) != 2 {
		t.Fatalf("%d fingerprints", len(fingerprints))
	}
	for _, r := range fingerprints {
		f := r.Fingerprint
		if f.Clocksource != "tsc" || !f.HighRes || f.ResolutionNS != 1 || f.CPUs != vcpus {
			t.Errorf("clocksource %s, high resolution %v (%d ns), %d CPUs", f.Clocksource, f.HighRes, f.ResolutionNS, f.CPUs)
		}
		if f.Clockevent == "" || f.SpinNS <= 0 || f.SyscallNS <= 0 || !strings.Contains(f.Proc, f.Release) {
			t.Errorf("incomplete: %+v", f)
		}
		if !strings.Contains(f.Settings["/proc/cmdline"], "bisectd.test=1") {
			t.Errorf("command line: %s", f.Settings["/proc/cmdline"])
		}
	}
}

func checkSteps(t *testing.T, o vm.Outcome) {
	t.Helper()
	results := records(o, proto.KindStep)
	if len(results) != 4 {
		t.Fatalf("%d results", len(results))
	}
	shell, sleeper, endless, missing := results[0].Step, results[1].Step, results[2].Step, results[3].Step
	if shell.Exit != 7 || string(shell.Stdout) != "hello\n" || string(shell.Stderr) != "err\n" {
		t.Errorf("shell: %+v", shell)
	}
	if sleeper.Exit != 0 || sleeper.Error != "" || sleeper.TimedOut || sleeper.WallNS < 1e9 || sleeper.Voluntary == 0 {
		t.Errorf("sleeper: %+v", sleeper)
	}
	if endless.Exit != 128+9 || !endless.TimedOut {
		t.Errorf("endless: %+v", endless)
	}
	if missing.Error == "" {
		t.Errorf("missing: %+v", missing)
	}
}

// checkHistograms looks for the one timer that sleep(1) arms.
func checkHistograms(t *testing.T, o vm.Outcome) {
	t.Helper()
	hists := records(o, proto.KindHist)
	if len(hists) < 3 {
		t.Fatalf("%d histograms", len(hists))
	}
	for _, r := range hists {
		h := r.Hist
		if h.Error != "" || h.Step != "sleeper" || !strings.Contains(h.Text, "[paused]") || h.Format == "" {
			t.Errorf("%s: %q", h.Event, h.Error)
		}
	}
	start, expire := hists[0].Hist, hists[1].Hist
	if start.Event != "timer/hrtimer_start" || !strings.Contains(start.Text, "hrtimer_wakeup") {
		t.Errorf("%s: %s", start.Event, start.Text)
	}
	if expire.Event != "timer/hrtimer_expire_entry" || !strings.Contains(expire.Text, "hrtimer_wakeup") {
		t.Errorf("%s: %s", expire.Event, expire.Text)
	}
}

// TestBootPanic crashes the kernel in a step.
func TestBootPanic(t *testing.T) {
	cfg := machine(t, 1, initrd(t, proto.Step{ID: "crash", Argv: []string{"sh", "-c", "echo c > /proc/sysrq-trigger"}}))
	o, err := realQEMU(t).Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := panicText + "sysrq triggered crash"; o.Ending != vm.Panicked || o.Detail != want {
		t.Errorf("%s: %s; want %s", o.Ending, o.Detail, want)
	}
	if console, err := os.ReadFile(o.Console); err != nil || !bytes.Contains(console, []byte("Call Trace:")) {
		t.Errorf("console log without a back trace: %v\n%s", err, console)
	}
	if o.Total > cfg.RunDeadline {
		t.Errorf("the panic was noticed after %v", o.Total)
	}
}

// TestBootReset restarts the guest in a step.
func TestBootReset(t *testing.T) {
	cfg := machine(t, 1, initrd(t, proto.Step{ID: "reset", Argv: []string{"sh", "-c", "echo b > /proc/sysrq-trigger"}}))
	o, err := realQEMU(t).Run(t.Context(), cfg)
	if err != nil || o.Ending != vm.Reset {
		t.Errorf("%s: %s, %v", o.Ending, o.Detail, err)
	}
}

// TestBootNoInit gives the kernel an initramfs that is none.
func TestBootNoInit(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("no archive\n"), 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := machine(t, 1, garbage)
	o, err := realQEMU(t).Run(t.Context(), cfg)
	if err != nil || o.Ending != vm.NoBoot || !strings.HasPrefix(o.Detail, panicText) || o.Boot != 0 {
		t.Errorf("%s: %s, %v", o.Ending, o.Detail, err)
	}
}

// TestBootHang lets both deadlines pass.
func TestBootHang(t *testing.T) {
	rd := initrd(t, proto.Step{ID: "endless", Argv: []string{"sleep", "3600"}})
	cfg := machine(t, 1, rd)
	cfg.RunDeadline = time.Second
	o, err := realQEMU(t).Run(t.Context(), cfg)
	if err != nil || o.Ending != vm.Hung || !strings.Contains(o.Detail, "no end record within 1s; guest running") {
		t.Errorf("after the agent: %s: %s, %v", o.Ending, o.Detail, err)
	}
	cfg = machine(t, 1, rd)
	cfg.BootDeadline = 100 * time.Millisecond
	o, err = realQEMU(t).Run(t.Context(), cfg)
	if err != nil || o.Ending != vm.NoBoot || !strings.Contains(o.Detail, "no agent within 100ms") {
		t.Errorf("before the agent: %s: %s, %v", o.Ending, o.Detail, err)
	}
}

// TestBootCancel ends a guest at once.
func TestBootCancel(t *testing.T) {
	cfg := machine(t, 1, initrd(t, proto.Step{ID: "endless", Argv: []string{"sleep", "3600"}}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	_, err := realQEMU(t).Run(ctx, cfg)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// TestBootBroken gives QEMU what it cannot use.
func TestBootBroken(t *testing.T) {
	cfg := machine(t, 1, initrd(t))
	cfg.Image = "/no/such/kernel"
	o, err := realQEMU(t).Run(t.Context(), cfg)
	if err == nil || o.Ending != vm.QEMUFailed || !strings.Contains(o.Detail, "/no/such/kernel") {
		t.Errorf("%s: %s, %v", o.Ending, o.Detail, err)
	}
}

// TestCommandByHand repeats a boot from its recorded command.
func TestCommandByHand(t *testing.T) {
	cfg := machine(t, 1, initrd(t))
	o, err := realQEMU(t).Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	again := repeat(t, o.Command, cfg.Dir)
	if len(again) != 2 || again[1].Kind != proto.KindEnd {
		t.Errorf("got %+v", again)
	}
}

// BenchmarkBoot measures the host time to the agent's first record.
func BenchmarkBoot(b *testing.B) {
	rd := initrd(b)
	l := realQEMU(b)
	var sum time.Duration
	for b.Loop() {
		o, err := l.Run(b.Context(), machine(b, 1, rd))
		if err != nil || o.Ending != vm.Completed {
			b.Fatal(o.Ending, o.Detail, err)
		}
		sum += o.Boot
	}
	b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms-to-hello/op")
}
