package qemu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bisectd/blame"
	"bisectd/vm"
)

// stub answers boots by accelerator.
type stub struct {
	outcomes map[vm.Accel]vm.Outcome
	errs     map[vm.Accel]error
	boots    []vm.Accel
}

func (s *stub) Run(ctx context.Context, cfg vm.Config) (vm.Outcome, error) {
	s.boots = append(s.boots, cfg.Accel)
	return s.outcomes[cfg.Accel], s.errs[cfg.Accel]
}

var (
	works   = vm.Outcome{Ending: vm.Completed}
	hangs   = vm.Outcome{Ending: vm.NoBoot}
	aborted = blame.Errorf(blame.Infrastructure, "QEMU: signal: aborted")
)

// probe returns a Probe with a device that opens.
func probe(t *testing.T, s *stub) *Probe {
	t.Helper()
	device := filepath.Join(t.TempDir(), "kvm")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return &Probe{Launcher: s, Version: "7.2", CacheDir: filepath.Join(t.TempDir(), "cache"), Dir: t.TempDir(), device: device}
}

func TestResolve(t *testing.T) {
	tests := []struct {
		name  string
		accel vm.Accel
		stub  stub
		want  vm.Accel
		why   string
		blame blame.Blame
		boots int // of two calls
	}{
		{name: "tcg", accel: vm.TCG, want: vm.TCG, why: "TCG was asked for"},
		{
			name: "works", accel: vm.Auto, stub: stub{outcomes: map[vm.Accel]vm.Outcome{vm.KVM: works}},
			want: vm.KVM, why: "a guest reached its init under KVM", boots: 1,
		},
		{
			name: "asked for, works", accel: vm.KVM, stub: stub{outcomes: map[vm.Accel]vm.Outcome{vm.KVM: works}},
			want: vm.KVM, why: "a guest reached its init under KVM", boots: 1,
		},
		{
			name: "hangs", accel: vm.Auto, stub: stub{outcomes: map[vm.Accel]vm.Outcome{vm.KVM: hangs, vm.TCG: works}},
			want: vm.TCG, why: "opens here but a guest did not get through its init within 20s (no-boot): using TCG", boots: 2,
		},
		{
			name: "asked for, hangs", accel: vm.KVM, stub: stub{outcomes: map[vm.Accel]vm.Outcome{vm.KVM: hangs, vm.TCG: works}},
			blame: blame.User, why: "KVM does not work here: ", boots: 2,
		},
		{
			name: "aborts", accel: vm.Auto,
			stub: stub{outcomes: map[vm.Accel]vm.Outcome{vm.TCG: works}, errs: map[vm.Accel]error{vm.KVM: aborted}},
			want: vm.TCG, why: "opens here but QEMU failed (QEMU: signal: aborted): using TCG", boots: 2,
		},
		{
			name: "kernel boots nowhere, nothing is cached", accel: vm.Auto,
			stub: stub{outcomes: map[vm.Accel]vm.Outcome{vm.KVM: hangs, vm.TCG: hangs}},
			want: vm.TCG, why: "and under TCG a guest did not get through its init", boots: 4,
		},
		{name: "unknown", accel: "xen", blame: blame.User, why: "unknown accelerator"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := probe(t, &tt.stub)
			for range 2 {
				accel, why, err := p.Resolve(t.Context(), tt.accel)
				if err != nil {
					why = err.Error()
					if blame.Of(err) != tt.blame {
						t.Errorf("blame %v", blame.Of(err))
					}
				}
				if accel != tt.want || !strings.Contains(why, tt.why) || (err != nil) != (tt.want == "") {
					t.Errorf("%s: %s, %v", accel, why, err)
				}
			}
			if len(tt.stub.boots) != tt.boots {
				t.Errorf("boots: %v, want %d", tt.stub.boots, tt.boots)
			}
		})
	}
}

func TestResolveNoDevice(t *testing.T) {
	s := &stub{}
	p := probe(t, s)
	p.device = "/no/such/kvm"
	accel, why, err := p.Resolve(t.Context(), vm.Auto)
	if accel != vm.TCG || err != nil || !strings.HasPrefix(why, "no access to KVM") || len(s.boots) != 0 {
		t.Errorf("%s: %s, %v, %d boots", accel, why, err, len(s.boots))
	}
}

// TestResolveCache asks again when the host has changed or the cache is broken.
func TestResolveCache(t *testing.T) {
	s := &stub{outcomes: map[vm.Accel]vm.Outcome{vm.KVM: works}}
	p := probe(t, s)
	for _, version := range []string{"7.2", "7.2", "8.0"} {
		p.Version = version
		if _, _, err := p.Resolve(t.Context(), vm.Auto); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.boots) != 2 {
		t.Errorf("%d boots for two versions", len(s.boots))
	}
	if err := os.WriteFile(filepath.Join(p.CacheDir, "kvm.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Resolve(t.Context(), vm.Auto); err != nil || len(s.boots) != 3 {
		t.Errorf("broken cache: %v, %d boots", err, len(s.boots))
	}
}

func TestResolveCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &stub{errs: map[vm.Accel]error{vm.KVM: ctx.Err()}}
	if _, _, err := probe(t, s).Resolve(ctx, vm.Auto); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestHost(t *testing.T) {
	if h := (&Probe{Version: "7.2"}).host(); h.QEMU != "7.2" || h.Kernel == "" || h.CPU == "" {
		t.Errorf("got %+v", h)
	}
}

// TestProbeReal asks this host. Whatever the answer is, a guest must then boot
// with it.
func TestProbeReal(t *testing.T) {
	l := realQEMU(t)
	p := &Probe{Launcher: l, Version: l.Version(), Image: kernelImage(t), Initrd: initrd(t), CacheDir: t.TempDir(), Dir: t.TempDir()}
	accel, why, err := p.Resolve(t.Context(), vm.Auto)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(why)
	cfg := machine(t, 1, p.Initrd)
	cfg.Accel = accel
	if o, err := l.Run(t.Context(), cfg); err != nil || o.Ending != vm.Completed {
		t.Errorf("under %s: %s: %s, %v", accel, o.Ending, o.Detail, err)
	}
}
