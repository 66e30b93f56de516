package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"bisectd/blame"
	"bisectd/vm"
)

// probeDeadline bounds the boot that has to prove KVM. Where KVM works the
// agent is there within two seconds.
const probeDeadline = 20 * time.Second

// Probe finds out whether this host runs guests under KVM. That /dev/kvm opens
// proves nothing: in some nested set-ups virtual machines can be made, short
// guests run, and every real kernel hangs. So the probe boots one.
type Probe struct {
	Launcher vm.Launcher
	Version  string // QEMU's
	Image    string // a kernel that boots
	Initrd   string // with the agent and a job without steps
	CacheDir string // keeps the answer
	Dir      string // scratch space
	device   string // instead of /dev/kvm
}

// host is all that the answer depends on.
type host struct {
	QEMU    string   `json:"qemu"`
	Kernel  string   `json:"kernel"`
	CPU     string   `json:"cpu"`
	Modules []string `json:"modules"` // of KVM; empty where it is built in
}

// answer is what the cache holds.
type answer struct {
	Host host   `json:"host"`
	KVM  bool   `json:"kvm"`
	Why  string `json:"why"`
}

// Resolve turns the accelerator of a job into the one to use, and says why in
// one sentence. KVM that was asked for by name and does not work is the user's
// blame.
func (p *Probe) Resolve(ctx context.Context, accel vm.Accel) (vm.Accel, string, error) {
	switch accel {
	case vm.TCG:
		return vm.TCG, "TCG was asked for", nil
	case vm.Auto, vm.KVM:
	default:
		return "", "", blame.Errorf(blame.User, "unknown accelerator %q", accel)
	}
	works, why, err := p.kvm(ctx)
	switch {
	case err != nil:
		return "", "", err
	case works:
		return vm.KVM, why, nil
	case accel == vm.KVM:
		return "", "", blame.Errorf(blame.User, "KVM does not work here: %s", why)
	}
	return vm.TCG, why + ": using TCG", nil
}

// kvm says whether KVM works, from the cache where the host is still the same.
func (p *Probe) kvm(ctx context.Context) (works bool, why string, err error) {
	device := p.device
	if device == "" {
		device = "/dev/kvm"
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Sprintf("no access to KVM (%v)", err), nil
	}
	f.Close()

	here := p.host()
	cache := filepath.Join(p.CacheDir, "kvm.json")
	if a, ok := readAnswer(cache, here); ok {
		return a.KVM, a.Why, nil
	}
	why, err = p.boot(ctx, vm.KVM)
	if err != nil {
		return false, "", err
	}
	a := answer{Host: here, KVM: why == "", Why: "a guest reached its init under KVM"}
	if !a.KVM {
		a.Why = device + " opens here but " + why
		// A kernel that does not boot at all says nothing about KVM.
		switch control, err := p.boot(ctx, vm.TCG); {
		case err != nil:
			return false, "", err
		case control != "":
			return false, a.Why + ", and under TCG " + control, nil
		}
	}
	return a.KVM, a.Why, writeAnswer(cache, a)
}

// boot boots the kernel and returns why that failed, in words that follow
// "but", or nothing. The error is that of ctx alone.
func (p *Probe) boot(ctx context.Context, accel vm.Accel) (why string, err error) {
	dir, err := os.MkdirTemp(p.Dir, "probe-")
	if err != nil {
		return "", blame.Errorf(blame.Infrastructure, "accelerator probe: %w", err)
	}
	defer os.RemoveAll(dir)
	outcome, err := p.Launcher.Run(ctx, vm.Config{
		Image: p.Image, Initrd: p.Initrd, VCPUs: 1, MemoryMiB: 256, Accel: accel, Dir: dir,
		BootDeadline: probeDeadline, RunDeadline: probeDeadline,
	})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return fmt.Sprintf("QEMU failed (%v)", err), nil
	case outcome.Ending == vm.Completed && outcome.Detail != "":
		return fmt.Sprintf("the agent failed (%s)", outcome.Detail), nil
	case outcome.Ending == vm.Completed:
		return "", nil
	}
	return fmt.Sprintf("a guest did not get through its init within %v (%s)", probeDeadline, outcome.Ending), nil
}

// host describes this host.
func (p *Probe) host() host {
	var u unix.Utsname
	_ = unix.Uname(&u) // cannot fail with a valid address
	h := host{QEMU: p.Version, Kernel: unix.ByteSliceToString(u.Release[:]), Modules: []string{}}
	scan("/proc/cpuinfo", func(line string) bool {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "model name" {
			return true
		}
		h.CPU = strings.TrimSpace(value)
		return false
	})
	scan("/proc/modules", func(line string) bool {
		if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "kvm") {
			h.Modules = append(h.Modules, name)
		}
		return true
	})
	return h
}

// scan calls each for the lines of a file until it returns false. A file that
// is not there has no lines.
func scan(path string, each func(line string) bool) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && each(lines.Text()); {
	}
}

// readAnswer returns the cached answer if it is for this host.
func readAnswer(path string, here host) (answer, bool) {
	var a answer
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &a) != nil {
		return a, false
	}
	same := a.Host.QEMU == here.QEMU && a.Host.Kernel == here.Kernel && a.Host.CPU == here.CPU &&
		strings.Join(a.Host.Modules, " ") == strings.Join(here.Modules, " ")
	return a, same
}

func writeAnswer(path string, a answer) error {
	text, err := json.MarshalIndent(a, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return blame.Errorf(blame.Infrastructure, "accelerator probe: %w", err)
	}
	if err := renameio.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return blame.Errorf(blame.Infrastructure, "accelerator probe: %w", err)
	}
	return nil
}
