package qemu

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bisectd/vm"
	"bisectd/vm/guest/proto"
)

// TestMain makes the test binary serve as QEMU, as seen from outside, when it
// is started with QEMU's first argument, and as a process that boots a guest.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-nodefaults" {
		fakeQEMU(os.Args[slices.Index(os.Args, "-kernel")+1])
	}
	if len(os.Args) > 1 && os.Args[1] == "boot" {
		bootForever(os.Args[2], os.Args[3], os.Args[4])
	}
	os.Exit(m.Run())
}

// fake is the other end of the channels.
type fake struct {
	console, monitor *os.File
	records          *proto.Writer
	result           *os.File
	negotiated       chan struct{}
	deaf             bool // quit does nothing
}

// scenarios are what a fake QEMU does, by the name of its kernel.
var scenarios = map[string]func(*fake){
	"end":            func(f *fake) { f.hello(); f.end("") },
	"end with error": func(f *fake) { f.hello(); f.end("no such step") },
	"end and stay":   func(f *fake) { f.hello(); f.end(""); select {} },
	"exit":           func(f *fake) { f.print("Booting\n") },
	"hello and exit": func(f *fake) { f.hello(); f.print("[    1.000000] reboot: Restarting system\n") },
	"hang":           func(f *fake) { f.hello(); f.print("still here\n"); select {} },
	"hang early":     func(f *fake) { select {} },
	"hang deaf":      func(f *fake) { f.deaf = true; f.hello(); select {} },
	"panic event": func(f *fake) {
		f.hello()
		f.event("GUEST_PANICKED", `{"action": "poweroff"}`)
		f.event("SHUTDOWN", `{"guest": true, "reason": "guest-panic"}`)
	},
	"panic text":  func(f *fake) { f.hello(); f.print(panicText + "x\n"); select {} },
	"panic early": func(f *fake) { f.print(panicText + "x\n") },
	"panic after the end": func(f *fake) {
		f.hello()
		f.end("")
		f.print(panicText + "x\n")
	},
	"complain": func(f *fake) {
		fmt.Fprintln(os.Stderr, "qemu: could not allocate memory\nmore")
		os.Exit(1)
	},
	"crash": func(f *fake) { f.hello(); _ = unix.Kill(os.Getpid(), unix.SIGKILL); select {} },
	"garbage": func(f *fake) {
		f.hello()
		_, _ = io.WriteString(f.result, "login: login: login: ")
		select {}
	},
	"signal": func(f *fake) { f.event("SHUTDOWN", `{"guest": false, "reason": "host-signal"}`) },
	"flood": func(f *fake) {
		f.hello()
		for range maxConsole>>20 + 4 {
			f.print(strings.Repeat("x", 1<<20) + "\n")
		}
		f.end("")
	},
}

func fakeQEMU(scenario string) {
	signal.Ignore(syscall.SIGTERM)
	f := &fake{console: os.NewFile(3, ""), result: os.NewFile(4, ""), monitor: os.NewFile(5, "")}
	f.records, f.negotiated = proto.NewWriter(f.result), make(chan struct{})
	go f.serve()
	<-f.negotiated
	scenarios[scenario](f)
	os.Exit(0)
}

// serve is the monitor.
func (f *fake) serve() {
	fmt.Fprintln(f.monitor, `{"QMP": {"version": {"qemu": {"micro": 0, "minor": 0, "major": 9}}}}`)
	id := regexp.MustCompile(`"id":(\d+)`)
	for lines := bufio.NewScanner(f.monitor); lines.Scan(); {
		quit := strings.Contains(lines.Text(), `"quit"`)
		if quit && f.deaf {
			continue
		}
		fmt.Fprintf(f.monitor, `{"return": {"status": "running"}, "id": %s}`+"\n", id.FindStringSubmatch(lines.Text())[1])
		if quit {
			os.Exit(0)
		}
		if strings.Contains(lines.Text(), "qmp_capabilities") {
			close(f.negotiated)
		}
	}
}

func (f *fake) print(text string) { _, _ = io.WriteString(f.console, text) }

func (f *fake) event(name, data string) {
	fmt.Fprintf(f.monitor, `{"event": %q, "data": %s, "timestamp": {"seconds": 1, "microseconds": 0}}`+"\n", name, data)
}

func (f *fake) hello() {
	_ = f.records.Write(proto.Record{Kind: proto.KindHello, Hello: &proto.Hello{}})
}

func (f *fake) end(problem string) {
	_ = f.records.Write(proto.Record{Kind: proto.KindEnd, End: &proto.End{Error: problem}})
}

// bootForever runs one boot that nobody waits for.
func bootForever(qemu, image, initrd string) {
	dir, err := os.MkdirTemp("", "boot")
	if err == nil {
		_, err = (&Launcher{path: qemu}).Run(context.Background(), vm.Config{
			Image: image, Initrd: initrd, VCPUs: 1, MemoryMiB: 256, Accel: vm.TCG, Dir: dir,
			BootDeadline: time.Hour, RunDeadline: time.Hour,
		})
	}
	fmt.Fprintln(os.Stderr, "the boot has ended: ", err)
	os.Exit(1)
}
