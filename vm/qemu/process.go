package qemu

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"bisectd/vm"
)

// streams are our ends of the channels.
type streams struct {
	console, result, monitor net.Conn
}

// process is one running QEMU.
type process struct {
	cmd     *exec.Cmd
	log     string // file with its standard error
	streams streams
	exited  chan struct{} // closed after err is set
	err     error         // of Wait
}

// start runs QEMU. The process dies with us, even when we are killed.
func (l *Launcher) start(cfg vm.Config) (*process, error) {
	p := &process{
		cmd:    exec.Command(l.path, arguments(cfg, inherited, l.tscKHz)...),
		log:    filepath.Join(cfg.Dir, "qemu.log"),
		exited: make(chan struct{}),
	}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A group of its own keeps a terminal's Ctrl-C from it: how a boot ends
	// is for us to decide.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	defer func() {
		for _, f := range p.cmd.ExtraFiles {
			f.Close()
		}
	}()
	for _, end := range []*net.Conn{&p.streams.console, &p.streams.result, &p.streams.monitor} {
		// In the order of inherited.
		ours, theirs, err := socketPair()
		if err != nil {
			p.close()
			return nil, err
		}
		*end = ours
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, theirs)
	}
	if err := p.launch(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// launch starts the process and waits for it in the background, on one thread
// for all its life: the parent that a death signal is bound to is the thread
// (prctl(2), PR_SET_PDEATHSIG).
func (p *process) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	return <-started
}

// kill ends the process group at once and waits until it is gone.
func (p *process) kill() {
	select {
	case <-p.exited:
		return
	default:
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
	<-p.exited
}

// close closes our ends of the channels.
func (p *process) close() {
	for _, c := range []net.Conn{p.streams.console, p.streams.result, p.streams.monitor} {
		if c != nil {
			c.Close()
		}
	}
}

// failure returns what QEMU complained about when it ended with an error, and
// nil when it ended well. Only to be called after it has exited.
func (p *process) failure() error {
	if p.err == nil {
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return p.err
	}
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	if len(line) == 0 {
		return fmt.Errorf("QEMU: %w", exit)
	}
	return fmt.Errorf("QEMU: %w: %s", exit, line)
}

// socketPair returns a connected pair of sockets: one end for us, one to be
// inherited.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "channel"), os.NewFile(uintptr(fds[1]), "channel")
	conn, err := net.FileConn(ours)
	ours.Close() // FileConn has its own duplicate
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}
