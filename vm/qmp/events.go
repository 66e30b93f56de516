package qmp

import (
	"context"

	"github.com/digitalocean/go-qemu/qmp"
)

// push adds an event. When the ring is full the oldest one goes: the last
// events tell how the machine ended.
func (c *Client) push(e qmp.Event) {
	c.mu.Lock()
	if len(c.ring) == eventBacklog {
		c.ring = c.ring[1:]
		c.dropped++
	}
	c.ring = append(c.ring, e)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *Client) pop() (e qmp.Event, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ring) == 0 {
		return e, false
	}
	e, c.ring = c.ring[0], c.ring[1:]
	return e, true
}

// Dropped returns how many events were lost because nobody read them.
func (c *Client) Dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

// Events returns the events in their order, those from before the call
// included. The channel is closed after the last one when the connection has
// ended, or when ctx ends. Several callers share the events among them.
func (c *Client) Events(ctx context.Context) (<-chan qmp.Event, error) {
	events := make(chan qmp.Event)
	go c.deliver(ctx, events)
	return events, nil
}

func (c *Client) deliver(ctx context.Context, events chan<- qmp.Event) {
	defer close(events)
	for {
		ended := false
		select {
		case <-c.more:
		case <-c.gone:
			ended = true // receive has stopped: the ring gets no more
		case <-ctx.Done():
			return
		}
		for e, ok := c.pop(); ok; e, ok = c.pop() {
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
		if ended {
			return
		}
	}
}
