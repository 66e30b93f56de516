package qemu

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/digitalocean/go-qemu/qmp/raw"

	"bisectd/vm"
	"bisectd/vm/guest/proto"
	"bisectd/vm/qmp"
)

// maxConsole bounds console.log in bytes: a kernel that warns without end must
// not fill the disk.
const maxConsole = 16 << 20

// hostSignal is QEMU's reason for a shutdown that a signal asked for
// (qapi/run-state.json, ShutdownCause).
const hostSignal = "host-signal"

// readers take in what comes over the channels, each in a goroutine that ends
// with its channel.
type readers struct {
	records  chan vm.Stamped // closed at the end of the result channel
	readErr  error           // why it ended; valid after that
	panicked chan struct{}   // gets a token from each reader that saw a panic

	wg      sync.WaitGroup
	console console // valid after wait
	monitor monitor
}

// listen starts the readers.
func (r *readers) listen(s streams, began time.Time, consolePath string) error {
	log, err := os.Create(consolePath)
	if err != nil {
		return err
	}
	r.records = make(chan vm.Stamped, 16)
	r.panicked = make(chan struct{}, 2)
	r.monitor.connected = make(chan struct{})
	r.wg.Go(func() { r.readRecords(s.result, began) })
	r.wg.Go(func() {
		defer log.Close()
		r.readConsole(s.console, log)
	})
	r.wg.Go(func() { r.monitor.read(s.monitor, r.panicked) })
	return nil
}

// readRecords stamps records as they arrive.
func (r *readers) readRecords(conn net.Conn, began time.Time) {
	defer close(r.records)
	reader := proto.NewReader(conn)
	for {
		record, err := reader.Read()
		if err != nil {
			r.readErr = err
			return
		}
		r.records <- vm.Stamped{At: time.Since(began), Record: record}
	}
}

// readConsole keeps the console in log, the first maxConsole bytes of it, and
// reads all of it: a guest must never wait for us.
func (r *readers) readConsole(conn net.Conn, log io.Writer) {
	room := maxConsole
	buffer := make([]byte, 32<<10)
	seen := false
	for {
		n, err := conn.Read(buffer)
		text := buffer[:n]
		_, _ = r.console.Write(text)
		if kept := text[:min(n, room)]; len(kept) > 0 {
			// A full disk must not turn into a finding about the kernel:
			// the console is evidence, not a result.
			_, _ = log.Write(kept)
			if room -= len(kept); room == 0 {
				fmt.Fprintln(log, "\n[console log ends here: too long]")
			}
		}
		if !seen && r.console.panic != "" {
			seen = true
			r.panicked <- struct{}{}
		}
		if err != nil {
			r.console.close()
			return
		}
	}
}

// consoleLog returns the path of the console log in dir.
func consoleLog(dir string) string { return filepath.Join(dir, "console.log") }

// monitor is QEMU's own view of the guest.
type monitor struct {
	client    *qmp.Client
	connected chan struct{} // closed when client may be used
	panicked  bool          // valid, like shutdown, after the readers' end
	shutdown  string        // reason of the shutdown
}

// read connects and takes events until QEMU is gone.
func (m *monitor) read(conn net.Conn, panicked chan<- struct{}) {
	m.client = qmp.New(conn)
	if m.client.Connect() != nil {
		return // QEMU failed, and its exit says so
	}
	close(m.connected)
	events, err := m.client.Events(context.Background())
	if err != nil {
		return
	}
	for e := range events {
		switch e.Event {
		case "GUEST_PANICKED":
			if !m.panicked {
				m.panicked = true
				panicked <- struct{}{}
			}
		case "SHUTDOWN":
			m.shutdown, _ = e.Data["reason"].(string)
		}
	}
}

// silent is the run state of a QEMU that does not tell it.
const silent = "unknown"

// quit tells QEMU to end and returns the run state that it was in.
func (m *monitor) quit() string {
	select {
	case <-m.connected:
	default:
		return silent
	}
	commands := raw.NewMonitor(m.client)
	state := silent
	if status, err := commands.QueryStatus(); err == nil {
		state = status.Status.String()
	}
	_ = commands.Quit() // a QEMU that does not listen is killed
	return state
}
