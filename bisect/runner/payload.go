package runner

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bisectd/bisect"
	"bisectd/blame"
	"bisectd/kbuild"
	"bisectd/vm/guest"
	"bisectd/vm/guest/proto"
	"bisectd/vm/initramfs"
	"bisectd/workloads"
	"bisectd/workloads/probes"
)

// Names of the steps in the guest.
const (
	probeStep = "probe"
	runStep   = "run" // followed by the number of the execution
)

// payload is what the guests of one profile are given.
type payload struct {
	archive  string // initramfs
	digest   string // sha256 of it
	timeout  time.Duration
	workload workloads.Workload
	version  string
}

// cargo is what payloads differ in.
type cargo struct {
	profile bisect.Profile
	only    string // check of the probe
	modules string // directory that the kernel's modules come from
}

// payload writes the initramfs for a boot once per process and kernel with
// modules.
func (r *Runner) payload(b bisect.Boot, k kbuild.Kernel) (payload, error) {
	id := cargo{b.Profile, b.Only, k.Modules}
	if load, ok := r.payloads[id]; ok {
		return load, nil
	}
	load, err := r.pack(b, k)
	if err != nil {
		return load, fmt.Errorf("guest payload: %w", err)
	}
	if r.payloads == nil {
		r.payloads = map[cargo]payload{}
	}
	r.payloads[id] = load
	return load, nil
}

// Drivers returns the files that let a guest load what it needs of a kernel's
// modules; none where the kernel has everything built in.
func Drivers(k kbuild.Kernel) ([]initramfs.File, error) {
	if k.Modules == "" {
		return nil, nil
	}
	files, err := initramfs.Modules(k.Modules, initramfs.GuestModules...)
	if err != nil {
		return nil, blame.Errorf(blame.User, "modules in %s: %w", k.Modules, err)
	}
	return files, nil
}

func (r *Runner) pack(b bisect.Boot, k kbuild.Kernel) (payload, error) {
	p := b.Profile
	archive := fmt.Sprintf("%s-%d.cpio", p, len(r.payloads))
	load := payload{workload: r.Workload, archive: filepath.Join(r.Dir, archive)}
	if p == bisect.CounterpartBoot {
		load.workload = r.Counterpart
	}
	var err error
	if load.version, err = load.workload.Version(); err != nil {
		return load, err
	}
	steps, err := r.steps(b)
	if err != nil {
		return load, err
	}
	for _, s := range steps {
		load.timeout += time.Duration(s.Timeout) * time.Millisecond
	}
	job := proto.Job{Version: proto.Version, ID: r.Job.Name + "/" + string(p), Steps: steps,
		Settle: p == bisect.MetricBoot || p == bisect.CounterpartBoot}
	files, err := r.files()
	if err != nil {
		return load, err
	}
	drivers, err := Drivers(k)
	if err != nil {
		return load, err
	}
	load.digest, err = WriteArchive(load.archive, job, append(files, drivers...))
	return load, err
}

// steps lists what the guest executes in a boot.
func (r *Runner) steps(b bisect.Boot) ([]proto.Step, error) {
	work, params := r.Workload, r.Job.Workload.Params()
	if b.Profile == bisect.CounterpartBoot {
		work, params = r.Counterpart, r.CounterpartParams
	}
	cmd, err := work.Command(params)
	if err != nil {
		return nil, err
	}
	var only []string
	if b.Only != "" {
		only = []string{b.Only}
	}
	probe := step(probeStep, probes.Command(only...))
	switch b.Profile {
	case bisect.ProbeBoot:
		return []proto.Step{probe}, nil
	case bisect.TraceBoot:
		run := step(runStep+"-0", cmd)
		run.Trace = true
		return []proto.Step{probe, run}, nil
	case bisect.MetricBoot, bisect.CounterpartBoot:
		var runs []proto.Step
		for i := range r.Job.Workload.Runs {
			runs = append(runs, step(fmt.Sprintf("%s-%d", runStep, i), cmd))
		}
		return runs, nil
	}
	return nil, fmt.Errorf("unknown profile %q", b.Profile)
}

func step(id string, c workloads.Command) proto.Step {
	return proto.Step{ID: id, Argv: c.Argv, Env: c.Env, Timeout: c.Timeout.Milliseconds()}
}

// files lists what the guest needs beside its agent: the probe and the
// workload.
func (r *Runner) files() ([]initramfs.File, error) {
	needed, err := probes.Files()
	if err != nil {
		return nil, err
	}
	work, err := r.Workload.Files()
	if err != nil {
		return nil, err
	}
	if r.Counterpart != nil {
		more, err := r.Counterpart.Files()
		if err != nil {
			return nil, err
		}
		work = append(work, more...)
	}
	var files []initramfs.File
	for _, f := range append(needed, work...) {
		known := slices.ContainsFunc(files, func(have initramfs.File) bool { return have.Path == f.Path })
		if !known {
			files = append(files, initramfs.File{Path: f.Path, Mode: f.Mode, Host: f.Host, Data: f.Data})
		}
	}
	return files, nil
}

// WriteArchive writes the initramfs of a guest that does job, and returns its
// sha256.
func WriteArchive(path string, job proto.Job, files []initramfs.File) (digest string, err error) {
	agent, err := guest.Agent()
	if err != nil {
		return "", err
	}
	f, err := os.Create(path)
	if err != nil {
		return "", blame.Errorf(blame.Infrastructure, "initramfs: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	if err := guest.Initramfs(buf, agent, job, files); err != nil {
		return "", fmt.Errorf("initramfs: %w", err)
	}
	if err := buf.Flush(); err != nil {
		return "", blame.Errorf(blame.Infrastructure, "initramfs: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), f.Close()
}
