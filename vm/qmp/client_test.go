package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/go-qemu/qmp/raw"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian"}, ` +
	`"capabilities": ["oob"]}}` + "\r\n"

// serve answers as QEMU does: every command by what answer returns for it,
// with "ID" replaced by the command's id.
func serve(t *testing.T, answer func(execute string) string) *Client {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	go func() {
		defer theirs.Close()
		if _, err := io.WriteString(theirs, greeting); err != nil {
			return
		}
		lines := bufio.NewScanner(theirs)
		for lines.Scan() {
			var cmd command
			if err := json.Unmarshal(lines.Bytes(), &cmd); err != nil {
				t.Errorf("%q: %v", lines.Bytes(), err)
				return
			}
			text := `{"return": {}, "id": ID}` + "\r\n"
			if cmd.Execute != "qmp_capabilities" {
				text = answer(cmd.Execute)
			}
			if text == "hang up" {
				return
			}
			if _, err := io.WriteString(theirs, strings.ReplaceAll(text, "ID", fmt.Sprint(cmd.ID))); err != nil {
				return
			}
		}
	}()
	c := New(ours)
	if err := c.Connect(); err != nil {
		t.Fatal(err)
	}
	return c
}

func event(name string) string {
	return `{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "` + name + `", "data": {"n": 1}}` + "\r\n"
}

func TestConnect(t *testing.T) {
	if v := serve(t, nil).Version(); v.String() != "7.2.22" {
		t.Errorf("version %s", v)
	}
}

func TestConnectRefuses(t *testing.T) {
	tests := []struct {
		name, stream string
		want         error
	}{
		{"nothing", "", ErrGone},
		{"cut", `{"QMP": {`, ErrGone},
		{"no greeting", `{"return": {}}`, nil},
		{"not JSON", "QEMU monitor\n", nil},
	}
	for _, tt := range tests {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.WriteString(theirs, tt.stream); theirs.Close() }()
		err := New(ours).Connect()
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestEventsAroundReplies sends two hundred events after each reply: none may
// get into a reply, and all that fit must come in order.
func TestEventsAroundReplies(t *testing.T) {
	n := 0
	c := serve(t, func(execute string) string {
		n++
		var b strings.Builder
		fmt.Fprintf(&b, `{"return": {"status": "%s", "running": true}, "id": ID}`+"\r\n", execute)
		for i := range 200 {
			b.WriteString(event(fmt.Sprintf("E%d", (n-1)*200+i)))
		}
		return b.String()
	})
	events, err := c.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 20 {
			out, err := c.Run([]byte(`{"execute":"query-status"}`))
			if err != nil || !strings.Contains(string(out), `"status": "query-status"`) {
				t.Errorf("run %d: %s, %v", i, out, err)
			}
		}
		c.Disconnect()
	})
	last := -1
	received := 0
	for e := range events {
		var i int
		if _, err := fmt.Sscanf(e.Event, "E%d", &i); err != nil || i <= last || e.Data["n"] != 1.0 {
			t.Errorf("event %+v after %d", e, last)
		}
		last = i
		received++
	}
	wg.Wait()
	if total := received + c.Dropped(); total > 4000 || received == 0 {
		t.Errorf("%d received, %d dropped", received, c.Dropped())
	}
}

// TestEventBacklog keeps the newest events and counts the others.
func TestEventBacklog(t *testing.T) {
	c := serve(t, func(string) string {
		return strings.Repeat(event("OLD"), 10) + strings.Repeat(event("NEW"), eventBacklog) + `{"return": {}, "id": ID}`
	})
	if _, err := c.Run([]byte(`{"execute":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if c.Dropped() != 10 {
		t.Errorf("%d dropped", c.Dropped())
	}
	events, _ := c.Events(t.Context())
	for range eventBacklog {
		if e := <-events; e.Event != "NEW" {
			t.Fatalf("got %s", e.Event)
		}
	}
	c.Disconnect()
	if e, open := <-events; open {
		t.Errorf("one more: %+v", e)
	}
}

func TestLongReply(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	c := serve(t, func(string) string { return `{"return": "` + long + `", "id": ID}` })
	out, err := c.Run([]byte(`{"execute":"query-qmp-schema"}`))
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Return string }
	if err := json.Unmarshal(out, &m); err != nil || m.Return != long {
		t.Errorf("%d bytes, %v", len(m.Return), err)
	}
}

func TestRefusedCommand(t *testing.T) {
	c := serve(t, func(string) string {
		return `{"error": {"class": "CommandNotFound", "desc": "no such thing"}, "id": ID}`
	})
	_, err := c.Run([]byte(`{"execute":"x"}`))
	var refused *Error
	if !errors.As(err, &refused) || refused.Class != "CommandNotFound" {
		t.Errorf("got %v", err)
	}
	if _, err := c.Run([]byte(`not JSON`)); err == nil {
		t.Error("a command that is no JSON passes")
	}
}

// TestNoAnswer lets a deadline pass; the late reply must not be taken for that
// of the next command.
func TestNoAnswer(t *testing.T) {
	held := ""
	c := serve(t, func(execute string) string {
		if execute == "slow" {
			held = `{"return": "late", "id": 2}` + "\r\n"
			return ""
		}
		return held + `{"return": "` + execute + `", "id": ID}`
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.RunContext(ctx, []byte(`{"execute":"slow"}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	out, err := c.Run([]byte(`{"execute":"next"}`))
	if err != nil || !strings.Contains(string(out), "next") {
		t.Errorf("%s, %v", out, err)
	}
}

// TestNoReader gives up on a QEMU that does not even read.
func TestNoReader(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := New(ours)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := c.RunContext(ctx, []byte(`{"execute":"x"}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestGone(t *testing.T) {
	c := serve(t, func(string) string { return "hang up" })
	for _, when := range []string{"while waiting", "afterwards"} {
		if _, err := c.Run([]byte(`{"execute":"x"}`)); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", when, err)
		}
	}
	c = serve(t, nil)
	c.Disconnect()
	if _, err := c.Run([]byte(`{"execute":"x"}`)); !errors.Is(err, ErrGone) {
		t.Errorf("after Disconnect: %v", err)
	}
}

// TestGeneratedCommands runs go-qemu's commands on top.
func TestGeneratedCommands(t *testing.T) {
	c := serve(t, func(execute string) string {
		return `{"return": {"status": "guest-panicked", "running": false, "singlestep": false}, "id": ID}`
	})
	status, err := raw.NewMonitor(c).QueryStatus()
	if err != nil || status.Status != raw.RunStateGuestPanicked || status.Running {
		t.Errorf("%+v, %v", status, err)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(greeting + `{"return": {}, "id": 1}` + event("STOP") + `{"return": 1, "id": 7}`)
	f.Add(greeting + `{"error": {"class": "a", "desc": "b"}, "id": 1}`)
	f.Add(`{"QMP": null}`)
	f.Fuzz(func(t *testing.T, stream string) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() { _, _ = io.WriteString(theirs, stream); theirs.Close() }()
		c := New(ours)
		if c.Connect() != nil {
			return
		}
		events, _ := c.Events(t.Context())
		for range events {
		}
		<-c.gone
		c.Disconnect()
	})
}
