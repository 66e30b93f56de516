// Package qmp speaks the QEMU Machine Protocol over a connection that is open
// already. Client implements go-qemu's qmp.Monitor, so that its generated
// commands (qmp/raw) run on top of it, and adds contexts, replies of any
// length, and events that cannot hold up a reply.
package qmp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
)

// Timeout bounds what Monitor's methods give no context for: the handshake and
// Run. QEMU answers within milliseconds unless its main loop is stuck.
const Timeout = 5 * time.Second

// eventBacklog is how many events are kept for a reader that is slow.
const eventBacklog = 256

// ErrGone is returned when the connection has ended: QEMU is gone.
var ErrGone = errors.New("qmp: QEMU closed the connection")

// Error is what QEMU answers to a command that it refuses.
type Error struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

func (e *Error) Error() string { return "qmp: " + e.Desc }

// Client is one connection to a monitor.
type Client struct {
	conn    net.Conn
	version qmp.Version

	writing sync.Mutex // one command at a time on the wire

	mu      sync.Mutex
	lastID  uint64
	waiting map[uint64]chan reply
	ring    []qmp.Event
	dropped int
	more    chan struct{} // holds a token while the ring may have events
	gone    chan struct{} // closed after err is set
	err     error
}

var _ qmp.Monitor = (*Client)(nil)

// message is anything that QEMU sends.
type message struct {
	Greeting *struct {
		Version qmp.Version `json:"version"`
	} `json:"QMP"`
	ID     *uint64         `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
	qmp.Event
}

// reply is QEMU's answer to one command.
type reply struct {
	raw json.RawMessage // the whole message, as go-qemu's callers expect
	err *Error
}

func (r reply) result() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.raw, nil
}

// command is go-qemu's command with an id, by which its reply is known.
type command struct {
	Execute string          `json:"execute"`
	Args    json.RawMessage `json:"arguments,omitempty"`
	ID      uint64          `json:"id"`
}

// New returns a client on conn. Connect has to be called before anything else.
func New(conn net.Conn) *Client {
	return &Client{
		conn:    conn,
		waiting: map[uint64]chan reply{},
		more:    make(chan struct{}, 1),
		gone:    make(chan struct{}),
	}
}

// Connect reads the greeting and negotiates, within Timeout.
func (c *Client) Connect() error {
	if err := c.conn.SetReadDeadline(time.Now().Add(Timeout)); err != nil {
		return err
	}
	decoder := json.NewDecoder(c.conn)
	var m message
	if err := decoder.Decode(&m); err != nil {
		return fmt.Errorf("qmp: greeting: %w", orGone(err))
	}
	if m.Greeting == nil {
		return errors.New("qmp: the first message is not a greeting")
	}
	c.version = m.Greeting.Version
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	go c.receive(decoder)
	_, err := c.Run([]byte(`{"execute":"qmp_capabilities"}`))
	return err
}

// Version is QEMU's version, as it said in its greeting.
func (c *Client) Version() qmp.Version { return c.version }

// Disconnect closes the connection. Commands that wait return ErrGone.
func (c *Client) Disconnect() error { return c.conn.Close() }

// Run is RunContext within Timeout.
func (c *Client) Run(text []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	return c.RunContext(ctx, text)
}

// RunContext sends the command in text, an encoded qmp.Command, and returns
// the message that answers it, {"return": ..., "id": ...}. What QEMU refuses
// is an *Error. When ctx ends before the reply has come, the late reply
// is thrown away and the connection stays of use; when it ends while the
// command is being sent, the connection is of no more use.
func (c *Client) RunContext(ctx context.Context, text []byte) ([]byte, error) {
	var cmd command
	if err := json.Unmarshal(text, &cmd); err != nil {
		return nil, fmt.Errorf("qmp: command: %w", err)
	}
	answer := make(chan reply, 1)
	cmd.ID = c.expect(answer)
	defer c.forget(cmd.ID)
	if err := c.send(ctx, cmd); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r.result()
	case <-c.gone:
		select {
		case r := <-answer: // QEMU's last words
			return r.result()
		default:
			return nil, c.err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// expect takes the next id for a command that answer is for.
func (c *Client) expect(answer chan reply) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	c.waiting[c.lastID] = answer
	return c.lastID
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

func (c *Client) send(ctx context.Context, cmd command) error {
	text, err := json.Marshal(cmd)
	if err != nil {
		return fmt.Errorf("qmp: command: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	// A QEMU that does not read must not hold us for longer than ctx.
	deadline, _ := ctx.Deadline()
	if err := c.conn.SetWriteDeadline(deadline); err != nil {
		return orGone(err)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.conn.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	defer func() {
		if !stop() {
			<-interrupted // or it would hit the next command's write
		}
	}()
	if _, err := c.conn.Write(append(text, '\n')); err != nil {
		return errors.Join(ctx.Err(), orGone(err))
	}
	return nil
}

// receive gives every message to whom it belongs, until the connection ends.
func (c *Client) receive(decoder *json.Decoder) {
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		var m message
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil {
			c.err = orGone(err)
			close(c.gone)
			return
		}
		if m.Event.Event != "" {
			c.push(m.Event)
		} else if m.ID != nil {
			c.answer(*m.ID, reply{raw, m.Error})
		}
	}
}

// answer hands a reply to the command that waits for it. Nobody waits any more
// for one that came after its deadline.
func (c *Client) answer(id uint64, r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting, ok := c.waiting[id]; ok {
		waiting <- r // has room: an id is answered once
		delete(c.waiting, id)
	}
}

// orGone turns the errors of an ended connection into ErrGone.
func orGone(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed):
		return ErrGone
	case errors.As(err, &op) && !op.Timeout():
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}
