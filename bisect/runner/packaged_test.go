package runner

import (
	"os"
	"path/filepath"
	"testing"

	"bisectd/bisect"
	"bisectd/bisect/judge"
	"bisectd/vm"
	"bisectd/vm/guest/proto"
	"bisectd/vm/initramfs"
	"bisectd/vm/qemu"
	"bisectd/workloads"

	_ "bisectd/workloads/stressng" // registers stress-ng/timer
)

// TestPackagedKernel boots a kernel as the distribution ships it, with the
// agent, the probe and stress-ng in it, and reads it as the runner does.
func TestPackagedKernel(t *testing.T) {
	image := os.Getenv("BISECTD_TEST_KERNEL")
	if image == "" || testing.Short() {
		t.Skip("boots a packaged kernel: 'make integration' fetches one and sets BISECTD_TEST_KERNEL")
	}
	launcher, err := qemu.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := workloads.Lookup("stress-ng/timer")
	if err != nil {
		t.Fatal(err)
	}
	r := &Runner{Workload: w, Dir: t.TempDir(), Job: bisect.Job{Name: "packaged",
		Workload: bisect.Work{Name: w.Name(), Args: map[string]any{"timer-freq": 1000}, Duration: bisect.Duration(1e9), Runs: 1}}}
	probe, err := r.steps(bisect.Boot{Profile: bisect.TraceBoot})
	if err != nil {
		t.Fatal(err)
	}
	metric, err := r.steps(bisect.Boot{Profile: bisect.MetricBoot})
	if err != nil {
		t.Fatal(err)
	}
	load := payload{workload: w, archive: filepath.Join(r.Dir, "all.cpio"), timeout: 4 * slack}
	files, err := r.files()
	if err != nil {
		t.Fatal(err)
	}
	if modules := os.Getenv("BISECTD_TEST_MODULES"); modules != "" {
		drivers, err := initramfs.Modules(modules, initramfs.GuestModules...)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, drivers...)
	}
	job := proto.Job{Version: proto.Version, ID: "packaged", Steps: append(metric, probe[0])}
	if _, err := WriteArchive(load.archive, job, files); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2} {
		out, err := launcher.Run(t.Context(), vm.Config{Image: image, Initrd: load.archive, VCPUs: n, MemoryMiB: 512,
			Accel: vm.TCG, Dir: t.TempDir(), BootDeadline: firstBoot, RunDeadline: load.timeout})
		if err != nil {
			t.Fatal(err)
		}
		o, err := load.read(out)
		if err != nil || o.Ending != bisect.Completed {
			t.Fatalf("%d vCPU: %s %q: %v", n, o.Ending, o.Detail, err)
		}
		if why := judge.Gate(o.Fingerprint, n); why != "" {
			t.Errorf("%d vCPU: the boot would be thrown away: %s", n, why)
		}
		ops, ok := o.Samples[0].Metric("bogo_ops_per_s")
		if !ok || ops.Value <= 0 || len(o.Probe.Invariants) == 0 || len(o.Probe.Markers) == 0 {
			t.Errorf("%d vCPU: metrics %v, probe %v", n, o.Samples[0].Metrics, o.Probe)
		}
		t.Logf("%d vCPU: %s, %.0f bogo ops/s, agent after %v", n, o.Fingerprint.Release, ops.Value, o.Startup)
	}
}
