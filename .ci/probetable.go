//go:build ignore

// Command probetable boots packaged kernels with the semantic probe in them and
// prints what each gave, as the table of docs/semantics.md. It exits with 1
// when a kernel gives anything that the table in DOCUMENT does not have.
//
//	go run .ci/probetable.go CACHE DOCUMENT VERSION...
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bisectd/bisect/runner"
	"bisectd/kbuild"
	"bisectd/kbuild/debpkg"
	"bisectd/vm"
	"bisectd/vm/guest/proto"
	"bisectd/vm/initramfs"
	"bisectd/vm/qemu"
	"bisectd/workloads"
	"bisectd/workloads/probes"
)

// The columns: what identifies a row, the facts that have to be documented, and
// times, which are those of one boot on one host.
var columns = []string{"kernel", "vCPUs", "clock", "disarm", "rearm", "disarm p.", "rearm p.", "delete", "kept",
	"invariants", "late", "round trip p50, p95", "probe", "boot"}

// facts is how many columns a document is held to, the first of them by two
// numbers of the kernel's version.
const facts = 10

const deadline = 2 * time.Minute // to the agent, and from there to the end

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: go run .ci/probetable.go CACHE DOCUMENT VERSION...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	news, err := table(ctx, os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "probetable:", err)
	}
	for _, line := range news {
		fmt.Fprintln(os.Stderr, "probetable: not documented:", line)
	}
	if err != nil || len(news) > 0 {
		os.Exit(1)
	}
}

// table prints a row for each kernel and number of processors, and returns those
// that the document does not have.
func table(ctx context.Context, cache, document string, versions []string) (news []string, err error) {
	known, err := documented(document)
	if err != nil {
		return nil, err
	}
	launcher, err := qemu.Find(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Println("| " + strings.Join(columns, " | ") + " |")
	fmt.Println(strings.Repeat("|---", len(columns)) + "|")
	for _, version := range versions {
		image, err := debpkg.Kernel(ctx, cache, version)
		if err != nil {
			return news, fmt.Errorf("kernel %s: %w", version, err)
		}
		for _, n := range []int{1, 2} {
			cells, err := row(ctx, launcher, image, n)
			if err != nil {
				return news, fmt.Errorf("kernel %s: %w", version, err)
			}
			line := "| " + strings.Join(cells, " | ") + " |"
			fmt.Println(line)
			if !slices.Contains(known, key(cells)) {
				news = append(news, line)
			}
		}
	}
	return news, nil
}

// documented returns the keys of the rows in the document.
func documented(document string) ([]string, error) {
	text, err := os.ReadFile(document)
	if err != nil {
		return nil, err
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == len(columns) {
			keys = append(keys, key(cells))
		}
	}
	return keys, nil
}

// key is what is compared of a row.
func key(cells []string) string {
	numbers := strings.Split(cells[0], ".")
	return strings.Join(numbers[:min(2, len(numbers))], ".") + "|" + strings.Join(cells[1:facts], "|")
}

// row boots the kernel once.
func row(ctx context.Context, launcher vm.Launcher, image debpkg.Image, vcpus int) ([]string, error) {
	dir, err := os.MkdirTemp("", "probetable-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	archive, err := pack(dir, image)
	if err != nil {
		return nil, err
	}
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o755); err != nil {
		return nil, err
	}
	out, err := launcher.Run(ctx, vm.Config{Image: image.Vmlinuz, Initrd: archive, VCPUs: vcpus, MemoryMiB: 512,
		Accel: vm.TCG, Dir: logs, BootDeadline: deadline, RunDeadline: deadline})
	if err != nil {
		return nil, err
	}
	if out.Ending != vm.Completed {
		console, _ := os.ReadFile(out.Console) // best effort: the ending says what matters
		return nil, fmt.Errorf("%d vCPU: %s: %s\n%s", vcpus, out.Ending, out.Detail, console)
	}
	return read(out, image, vcpus)
}

// pack writes an initramfs in which the agent runs the probe.
func pack(dir string, image debpkg.Image) (string, error) {
	files, err := runner.Drivers(kbuild.Kernel{Modules: image.ModulesDir})
	if err != nil {
		return "", err
	}
	program, err := probes.Files()
	if err != nil {
		return "", err
	}
	for _, f := range program {
		files = append(files, initramfs.File{Path: f.Path, Mode: f.Mode, Host: f.Host, Data: f.Data})
	}
	command := probes.Command()
	job := proto.Job{Version: proto.Version, ID: "table", Settle: true, Steps: []proto.Step{
		{ID: "probe", Argv: command.Argv, Timeout: command.Timeout.Milliseconds()}}}
	archive := filepath.Join(dir, "guest.cpio")
	_, err = runner.WriteArchive(archive, job, files)
	return archive, err
}

// read makes a row of what a boot left.
func read(out vm.Outcome, image debpkg.Image, vcpus int) ([]string, error) {
	clock := "?"
	var step *proto.StepResult
	for _, r := range out.Records {
		if f := r.Fingerprint; f != nil {
			clock = fmt.Sprintf("%s, %d ns", f.Clocksource, f.ResolutionNS)
		}
		if r.Step != nil {
			step = r.Step
		}
	}
	if step == nil || step.Exit != 0 {
		return nil, fmt.Errorf("the probe failed: %+v", step)
	}
	record, err := probes.Parse(step.Stdout)
	if err != nil {
		return nil, err
	}
	version, _, _ := strings.Cut(image.Version, "-")
	cells := []string{version, fmt.Sprint(vcpus), clock}
	for _, name := range []string{probes.StaleDisarm, probes.StaleRearm, probes.StaleDisarmPeriodic,
		probes.StaleRearmPeriodic, probes.StaleDelete, probes.IgnoredKept} {
		cells = append(cells, marker(record, name))
	}
	late, trip := times(record)
	return append(cells, invariants(record), late, trip, fmt.Sprintf("%.2f s", float64(step.WallNS)/1e9),
		fmt.Sprintf("%.1f s", out.Boot.Seconds())), nil
}

// marker says whether a fact was seen; where the tries disagree, in how many.
func marker(r workloads.ProbeRecord, name string) string {
	for _, m := range r.Markers {
		switch {
		case m.Name != name:
			continue
		case !m.Measured || !m.Clear:
			return m.Detail
		case m.Seen:
			return "yes"
		}
		return "no"
	}
	return "missing"
}

// invariants counts those that passed and names the others.
func invariants(r workloads.ProbeRecord) string {
	var text bytes.Buffer
	passed := 0
	for _, v := range r.Invariants {
		if v.Result == workloads.Pass {
			passed++
			continue
		}
		fmt.Fprintf(&text, "; %s %s: %s", v.Name, v.Result, v.Detail)
	}
	return fmt.Sprintf("%d pass%s", passed, text.String())
}

// times returns the worst median lateness and the round trips of messages.
func times(r workloads.ProbeRecord) (late, trip string) {
	worst := 0.0
	for _, v := range r.Invariants {
		switch {
		case v.Name == probes.RoundtripLate:
			trip = workloads.Quantity(v.Value, "ns")
		case v.Name == probes.RoundtripStall:
			trip += ", " + workloads.Quantity(v.Value, "ns")
		case strings.HasSuffix(v.Name, "-late"):
			worst = max(worst, v.Value)
		}
	}
	return workloads.Quantity(worst, "ns"), trip
}
