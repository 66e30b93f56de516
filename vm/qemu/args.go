package qemu

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"bisectd/vm"
	"bisectd/vm/guest/proto"
)

// channels are the back ends (-chardev) of the three streams between us and a
// guest, without their ids.
type channels struct {
	console, result, monitor string
}

// inherited are sockets that QEMU gets as open file descriptors, in the order
// of exec.Cmd's ExtraFiles. Nothing is lost before the other end is read, no
// file has to be named, and both ends see the other one go.
var inherited = channels{console: "socket,fd=3", result: "socket,fd=4", monitor: "socket,fd=5"}

// byHand are files in dir, for somebody who repeats the boot from a shell.
func byHand(dir string) channels {
	return channels{console: "stdio", result: "file,path=" + escape(filepath.Join(dir, "result.bin"))}
}

// arguments returns QEMU's argument vector without its name. tscKHz is the
// frequency of the host's TSC, zero when it is not known.
func arguments(cfg vm.Config, ch channels, tscKHz int) []string {
	args := []string{"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-name", "debug-threads=on"} // a vCPU's thread is known by its name
	args = append(args, accelerator(cfg.Accel)...)
	args = append(args,
		"-m", strconv.Itoa(cfg.MemoryMiB),
		"-smp", strconv.Itoa(cfg.VCPUs),
		"-bios", firmware,
		"-kernel", cfg.Image,
		"-initrd", cfg.Initrd,
		"-append", strings.Join(kernelParameters(cfg, tscKHz), " "),
		"-chardev", ch.console+",id=console", "-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-chardev", ch.result+",id=result",
		"-device", "virtserialport,chardev=result,name="+proto.PortName,
		// Without this device a panic is a reboot like any other.
		"-device", "pvpanic-pci", "-action", "panic=shutdown",
	)
	if ch.monitor != "" {
		args = append(args, "-chardev", ch.monitor+",id=monitor", "-mon", "chardev=monitor,mode=control")
	}
	return args
}

// accelerator returns what depends on how guest code is executed. The machine
// is without the devices that a guest would only spend time on.
func accelerator(accel vm.Accel) []string {
	const machine = "q35,usb=off,sata=off,smbus=off,vmport=off,smm=off"
	if accel == vm.KVM {
		// The TSC is only stable for the guest to know when nothing can
		// migrate it to another host.
		return []string{"-machine", machine, "-accel", "kvm", "-cpu", "host,migratable=off,+invtsc"}
	}
	return []string{"-machine", machine, "-accel", "tcg,thread=multi", "-cpu", "max"}
}

// kernelParameters returns the kernel's command line
// (Documentation/admin-guide/kernel-parameters.txt).
func kernelParameters(cfg vm.Config, tscKHz int) []string {
	params := []string{
		"console=ttyS0",
		"earlyprintk=serial,ttyS0,115200", // a kernel that dies early says why
		"loglevel=5",                      // up to warnings: a serial console costs an exit a byte
		"panic=-1", "oops=panic",          // after an oops no measurement is worth anything
		"reboot=t",
		"nokaslr",
		"no_timer_check",
		// Where the power-management timer is, which only ACPI would say: the
		// local APIC timer is calibrated against it (q35 has it at PMBASE + 8).
		"pmtmr=0x608",
		"nowatchdog", // it owns a timer on each CPU; hangs are found from outside
		"random.trust_cpu=on",
		"cryptomgr.notests", "raid=noautodetect", "i8042.noaux", "i8042.nokbd",
		"rdinit=/init",
	}
	if cfg.Accel == vm.TCG {
		// Calibration against an emulated clock fails at random, and with
		// several vCPUs the TSC is mistrusted: the guest then has timers of
		// tick resolution.
		params = append(params, "tsc=reliable")
		if tscKHz > 0 {
			params = append(params, "tsc_early_khz="+strconv.Itoa(tscKHz))
		}
	}
	return append(params, cfg.Append...)
}

// escape protects a path in QEMU's option syntax, where a comma ends a value.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// check refuses a machine that QEMU would refuse with less clarity, or would
// start as something else.
func check(cfg vm.Config) error {
	switch {
	case cfg.Accel != vm.KVM && cfg.Accel != vm.TCG:
		return fmt.Errorf("accelerator %q: not resolved", cfg.Accel)
	case cfg.VCPUs < 1:
		return fmt.Errorf("%d vCPUs", cfg.VCPUs)
	case cfg.MemoryMiB < 1:
		return fmt.Errorf("%d MiB of memory", cfg.MemoryMiB)
	case cfg.BootDeadline <= 0 || cfg.RunDeadline <= 0:
		return fmt.Errorf("no deadline")
	}
	return nil
}
