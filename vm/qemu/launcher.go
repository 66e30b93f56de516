// Package qemu runs guests under QEMU: the command line, the process with its
// console, result channel and monitor, and how a boot ended.
package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"bisectd/blame"
	"bisectd/vm"
	"bisectd/vm/guest/proto"
)

const (
	// exitGrace is how long a guest that has sent its end record gets to
	// restart.
	exitGrace = 2 * time.Second
	// panicGrace is how long a kernel that panics gets to print why and to
	// restart.
	panicGrace = 3 * time.Second
	// quitGrace is how long QEMU gets to quit when a guest hangs.
	quitGrace = 2 * time.Second
)

var _ vm.Launcher = (*Launcher)(nil)

// Run boots cfg and waits for the end. Everything that it started is gone when
// it returns.
func (l *Launcher) Run(ctx context.Context, cfg vm.Config) (vm.Outcome, error) {
	if err := check(cfg); err != nil {
		return vm.Outcome{Ending: vm.QEMUFailed, Detail: err.Error()}, blame.Errorf(blame.Infrastructure, "vm: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return vm.Outcome{}, err
	}
	b := &boot{cfg: cfg, began: time.Now()}
	b.outcome.Command = append([]string{l.path}, arguments(cfg, byHand(cfg.Dir), l.tscKHz)...)
	p, err := l.start(cfg)
	if err != nil {
		b.outcome.Ending, b.outcome.Detail = vm.QEMUFailed, err.Error()
		return b.outcome, blame.Errorf(blame.Infrastructure, "start QEMU: %w", err)
	}
	b.process = p
	defer p.close()
	b.outcome.Console = consoleLog(cfg.Dir)
	if err := b.listen(p.streams, b.began, b.outcome.Console); err != nil {
		p.kill()
		return b.outcome, blame.Errorf(blame.Infrastructure, "vm: %w", err)
	}
	// Whatever is being waited for ends with QEMU.
	defer context.AfterFunc(ctx, b.kill)()
	b.follow(ctx)
	b.finish()
	if err := ctx.Err(); err != nil {
		return b.outcome, err
	}
	return b.outcome, b.classify()
}

// boot is one boot in progress. Only follow and what runs after it touch its
// fields; the readers hand over through channels.
type boot struct {
	*process
	readers
	cfg     vm.Config
	began   time.Time
	outcome vm.Outcome

	hello, end *proto.Record
	waits      waits
	late       bool   // a deadline passed
	status     string // QEMU's run state at that time
}

// follow takes what the readers bring until QEMU has exited or has been
// killed: at once when ctx ends, in an orderly way at a deadline.
func (b *boot) follow(ctx context.Context) {
	deadline := time.NewTimer(b.cfg.BootDeadline)
	defer deadline.Stop()
	records, panicked := b.records, b.panicked
	for {
		select {
		case <-ctx.Done():
			b.kill()
			return
		case r, open := <-records:
			if !open {
				records = nil // QEMU goes, or the guest sent garbage
				if b.garbage() {
					b.kill()
					return
				}
				continue
			}
			// A record that was on its way when the kernel panicked gives
			// the guest no more time.
			if left := b.take(r); left > 0 && panicked != nil {
				deadline.Reset(left)
			}
		case <-panicked:
			panicked = nil
			deadline.Reset(panicGrace)
		case <-deadline.C:
			b.expire(panicked == nil)
			return
		case <-b.exited:
			return
		}
	}
}

// take stores a record and returns how long the guest has from here, zero when
// that stays as it was.
func (b *boot) take(r vm.Stamped) time.Duration {
	b.outcome.Records = append(b.outcome.Records, r)
	if b.hello != nil {
		b.watch()
	}
	switch r.Kind {
	case proto.KindHello:
		b.hello, b.outcome.Boot = &r.Record, r.At
		b.waits = waits{waited(b.cmd.Process.Pid), time.Since(b.began)}
		return b.cfg.RunDeadline
	case proto.KindEnd:
		b.end = &r.Record
		return exitGrace
	}
	return 0
}

// watch updates the host's share. The record that came may be the last one at
// which the vCPUs are still there.
func (b *boot) watch() {
	if share, ok := b.waits.share(waited(b.cmd.Process.Pid), time.Since(b.began)); ok {
		b.outcome.Waited = share
	}
}

// expire ends a QEMU whose guest is late. After a panic or the end record that
// is no finding: the guest only failed to restart.
func (b *boot) expire(panicked bool) {
	if !panicked && b.end == nil {
		b.late = true
		b.status = b.monitor.quit()
		select {
		case <-b.exited:
			return
		case <-time.After(quitGrace):
		}
	}
	b.kill()
}

// finish waits for the readers, which come to their end with QEMU, and takes
// what they still have.
func (b *boot) finish() {
	for r := range b.records {
		b.take(r)
	}
	b.wg.Wait()
	b.outcome.Total = time.Since(b.began)
}

// classify says how the boot ended. The end record counts above all, then what
// the kernel said, then what QEMU did.
func (b *boot) classify() error {
	o := &b.outcome
	cause := b.console.cause()
	o.Spoke = cause != "" || b.monitor.panicked || b.console.spoke()
	switch failure := b.failure(); {
	case b.end != nil:
		o.Ending, o.Detail = vm.Completed, b.end.End.Error
	case b.garbage():
		return b.failed(fmt.Errorf("result channel: %w", b.readErr))
	case cause != "" || b.monitor.panicked:
		o.Ending, o.Detail = b.reached(vm.Panicked), cause
		if cause == "" {
			o.Detail = "QEMU reports a panic; last line: " + b.console.last
		}
	case b.late && b.status == silent:
		return b.failed(errors.New("QEMU did not answer its monitor: it was stopped, or it hangs itself"))
	case b.late:
		o.Ending, o.Detail = b.reached(vm.Hung), b.lateness()
	case failure != nil:
		return b.failed(failure)
	case b.monitor.shutdown == hostSignal:
		return b.failed(errors.New("QEMU was told to end by a signal from outside"))
	default:
		o.Ending, o.Detail = b.reached(vm.Reset), "the guest restarted; last line: "+b.console.last
	}
	return nil
}

// reached returns ending, or NoBoot where the agent never came.
func (b *boot) reached(ending vm.Ending) vm.Ending {
	if b.hello == nil {
		return vm.NoBoot
	}
	return ending
}

func (b *boot) failed(err error) error {
	b.outcome.Ending, b.outcome.Detail = vm.QEMUFailed, err.Error()
	return blame.Errorf(blame.Infrastructure, "%w", err)
}

// lateness describes a guest that was late.
func (b *boot) lateness() string {
	what, limit := "no agent", b.cfg.BootDeadline
	if b.hello != nil {
		what, limit = "no end record", b.cfg.RunDeadline
	}
	return fmt.Sprintf("%s within %v; guest %s; last line: %s", what, limit, b.status, b.console.last)
}

// garbage says whether the result channel broke, as opposed to ended with
// QEMU. Only to be called after records was closed.
func (b *boot) garbage() bool {
	return b.readErr != nil && !errors.Is(b.readErr, io.EOF) && !errors.Is(b.readErr, io.ErrUnexpectedEOF)
}
