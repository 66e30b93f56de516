package qemu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bisectd/vm"
)

// groups returns the arguments as one option with its value a line, and the
// kernel's parameters one a line, in alphabetical order: the order means
// nothing to QEMU or to the kernel.
func groups(t *testing.T, args []string) string {
	t.Helper()
	var lines []string
	for i := 0; i < len(args); i++ {
		option := args[i]
		if !strings.HasPrefix(option, "-") {
			t.Fatalf("%q is no option", option)
		}
		value := ""
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			value = args[i]
		}
		if option == "-append" {
			parameters := strings.Fields(value)
			slices.Sort(parameters)
			value = "\n\t" + strings.Join(parameters, "\n\t")
		}
		lines = append(lines, strings.TrimSpace(option+" "+value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func TestArguments(t *testing.T) {
	cfg := vm.Config{
		Image: "/k/bzImage", Initrd: "/k/initrd", VCPUs: 2, MemoryMiB: 512,
		Dir: "/run/a,b", Append: []string{"skew_tick=1"},
	}
	for _, tt := range []struct {
		name  string
		accel vm.Accel
		ch    channels
		khz   int
	}{
		{"tcg", vm.TCG, inherited, 2000000},
		{"tcg-unknown-tsc", vm.TCG, inherited, 0},
		{"kvm", vm.KVM, inherited, 2000000},
		{"by-hand", vm.TCG, byHand(cfg.Dir), 2000000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg.Accel = tt.accel
			golden(t, fmt.Sprintf("args/%s.golden", tt.name), groups(t, arguments(cfg, tt.ch, tt.khz)))
		})
	}
}

// TestAppendComesLast lets a job override our parameters: the kernel takes the
// last one of a name.
func TestAppendComesLast(t *testing.T) {
	p := kernelParameters(vm.Config{Accel: vm.TCG, Append: []string{"tsc=unstable"}}, 1)
	if p[len(p)-1] != "tsc=unstable" {
		t.Errorf("got %v", p)
	}
}

func TestHostTSC(t *testing.T) {
	if khz := hostTSC(); khz != 0 && (khz < 500_000 || khz > 10_000_000) {
		t.Errorf("%d kHz", khz)
	}
}

func TestParseVersion(t *testing.T) {
	const text = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003-2022\n"
	if got := parseVersion(text); got != "7.2.22 (Debian 1:7.2+dfsg-7)" {
		t.Errorf("got %q", got)
	}
}
