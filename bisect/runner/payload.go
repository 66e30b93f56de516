package runner

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"bisectd/bisect"
	"bisectd/blame"
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

// payload writes the initramfs of a profile once per process.
func (r *Runner) payload(p bisect.Profile) (payload, error) {
	if load, ok := r.payloads[p]; ok {
		return load, nil
	}
	load, err := r.pack(p)
	if err != nil {
		return load, fmt.Errorf("guest payload: %w", err)
	}
	if r.payloads == nil {
		r.payloads = map[bisect.Profile]payload{}
	}
	r.payloads[p] = load
	return load, nil
}

func (r *Runner) pack(p bisect.Profile) (payload, error) {
	load := payload{workload: r.Workload, archive: filepath.Join(r.Dir, string(p)+".cpio")}
	var err error
	if load.version, err = r.Workload.Version(); err != nil {
		return load, err
	}
	steps, err := r.steps(p)
	if err != nil {
		return load, err
	}
	for _, s := range steps {
		load.timeout += time.Duration(s.Timeout) * time.Millisecond
	}
	files, err := r.files(proto.Job{Version: proto.Version, ID: r.Job.Name + "/" + string(p), Steps: steps})
	if err != nil {
		return load, err
	}
	load.digest, err = writeArchive(load.archive, files)
	return load, err
}

// steps lists what the guest executes in a boot of profile p.
func (r *Runner) steps(p bisect.Profile) ([]proto.Step, error) {
	cmd, err := r.Workload.Command(r.Job.Workload.Params())
	if err != nil {
		return nil, err
	}
	probe := step(probeStep, probes.Command())
	switch p {
	case bisect.ProbeBoot:
		return []proto.Step{probe}, nil
	case bisect.TraceBoot:
		run := step(runStep+"-0", cmd)
		run.Trace = true
		return []proto.Step{probe, run}, nil
	case bisect.MetricBoot:
		var runs []proto.Step
		for i := range r.Job.Workload.Runs {
			runs = append(runs, step(fmt.Sprintf("%s-%d", runStep, i), cmd))
		}
		return runs, nil
	}
	return nil, fmt.Errorf("unknown profile %q", p)
}

func step(id string, c workloads.Command) proto.Step {
	return proto.Step{ID: id, Argv: c.Argv, Env: c.Env, Timeout: c.Timeout.Milliseconds()}
}

// files lists the whole content of the initramfs.
func (r *Runner) files(job proto.Job) ([]initramfs.File, error) {
	agent, err := guest.Agent()
	if err != nil {
		return nil, err
	}
	probe, err := probes.Binary()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	files := []initramfs.File{
		{Path: "/init", Mode: 0o755, Data: agent},
		{Path: proto.JobPath, Mode: 0o644, Data: text},
		{Path: probes.GuestPath, Mode: 0o755, Data: probe},
	}
	needed, err := r.Workload.Files()
	if err != nil {
		return nil, err
	}
	for _, f := range needed {
		if f.Path != probes.GuestPath {
			files = append(files, initramfs.File{Path: f.Path, Mode: f.Mode, Host: f.Host, Data: f.Data})
		}
	}
	return files, nil
}

func writeArchive(path string, files []initramfs.File) (digest string, err error) {
	f, err := os.Create(path)
	if err != nil {
		return "", blame.Errorf(blame.Infrastructure, "initramfs: %w", err)
	}
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	if err := initramfs.Write(buf, files); err != nil {
		f.Close()
		return "", fmt.Errorf("initramfs: %w", err)
	}
	if err := buf.Flush(); err != nil {
		f.Close()
		return "", blame.Errorf(blame.Infrastructure, "initramfs: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), f.Close()
}
