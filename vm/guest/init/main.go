// Command init is bisectd's agent, the first process of every guest. It mounts
// the kernel's file systems, runs the steps of the job in its initramfs and
// sends records over a virtio-serial port; the last one is always End. Then it
// restarts the machine, which QEMU takes as its own end.
//
// While a step runs the agent sleeps in wait4(2), without garbage collector
// and with one timer, the step's deadline: the timers of the guest are what is
// being measured.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"bisectd/vm/guest/proto"
)

func main() {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	if len(os.Args) > 2 && os.Args[1] == startTraced {
		err := becomeTraced(os.Args[2], os.Args[3:])
		fmt.Fprintln(os.Stderr, "bisectd init:", err)
		os.Exit(127)
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is the first process of a guest; it would restart this machine")
		os.Exit(1)
	}
	os.Setenv("PATH", path)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bisectd init:", err) // the console
	}
	unix.Sync()
	// A restart needs no support in the kernel beyond a triple fault (reboot=t);
	// powering off needs ACPI.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {} // a return would be the panic "Attempted to kill init!"
}

// run does the whole job. Whatever goes wrong after the port is open is told
// in End; what goes wrong before can only be said on the console.
func run() error {
	mountErr := mount()
	if err := loadModules(proto.ModulesPath); err != nil {
		return err
	}
	port, err := openPort(proto.PortName, portDeadline)
	if err != nil {
		return errors.Join(err, mountErr)
	}
	defer port.Close()
	a := agent{out: proto.NewWriter(port)}
	err = errors.Join(mountErr, a.guarded())
	end := proto.End{ID: a.job.ID, Steps: a.steps}
	if err != nil {
		end.Error = err.Error()
	}
	return errors.Join(err, a.out.Write(proto.Record{Kind: proto.KindEnd, End: &end}))
}

// agent works one job off.
type agent struct {
	out   *proto.Writer
	job   proto.Job
	steps int // results sent
}

// guarded is work, with a panic turned into an error.
func (a *agent) guarded() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("agent: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return a.work()
}

// work sends everything before End. A job without steps only proves that the
// kernel reaches its first process.
func (a *agent) work() error {
	jobErr := a.readJob(proto.JobPath)
	hello := proto.Hello{Version: proto.Version, ID: a.job.ID, Release: release(), Uptime: monotonic()}
	if err := a.out.Write(proto.Record{Kind: proto.KindHello, Hello: &hello}); err != nil {
		return err
	}
	if jobErr != nil || len(a.job.Steps) == 0 {
		return jobErr
	}
	if a.job.Settle {
		settle()
	}
	if err := a.environment(); err != nil {
		return err
	}
	for _, s := range a.job.Steps {
		if err := a.step(s); err != nil {
			return fmt.Errorf("step %s: %w", s.ID, err)
		}
	}
	return a.environment()
}

func (a *agent) readJob(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &a.job); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if a.job.Version != proto.Version {
		return fmt.Errorf("%s: version %d, this agent knows %d", file, a.job.Version, proto.Version)
	}
	return nil
}

// environment sends a Fingerprint and a Clock.
func (a *agent) environment() error {
	f := fingerprint()
	if err := a.out.Write(proto.Record{Kind: proto.KindFingerprint, Fingerprint: &f}); err != nil {
		return err
	}
	return a.clock()
}

func (a *agent) clock() error {
	c := proto.Clock{MonotonicNS: monotonic(), RealtimeNS: time.Now().UnixNano()}
	return a.out.Write(proto.Record{Kind: proto.KindClock, Clock: &c})
}

// step runs one step between two Clocks and sends its result and histograms.
func (a *agent) step(s proto.Step) error {
	var trace *tracer
	if s.Trace {
		trace = newTracer(tracefs)
		defer trace.remove()
	}
	if err := a.clock(); err != nil {
		return err
	}
	result := execute(s, trace)
	if err := a.out.Write(proto.Record{Kind: proto.KindStep, Step: &result}); err != nil {
		return err
	}
	a.steps++
	if err := a.clock(); err != nil {
		return err
	}
	if trace == nil {
		return nil
	}
	for _, h := range trace.read(s.ID) {
		err := a.out.Write(proto.Record{Kind: proto.KindHist, Hist: &h})
		if errors.Is(err, proto.ErrTooLong) {
			h.Text, h.Error = "", err.Error()
			err = a.out.Write(proto.Record{Kind: proto.KindHist, Hist: &h})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
