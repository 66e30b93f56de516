// Package hrtimer counts the lives of high-resolution timers from the hist
// triggers of a traced run: how often each callback's timers were started,
// expired, were cancelled and were re-armed while armed.
//
// Kernels differ in what they trace, whatever their version says. Where
// hrtimer_start carries was_armed= (commit f2e388a019e4, also in stable
// kernels) a re-arm is such a start and hrtimer_cancel is a cancel. Elsewhere
// hrtimer_cancel is emitted whenever a timer leaves the queue, so also at every
// expiry and at every re-arm. hrtimer_start_expired is a timer that had expired
// when it was started: it fires without hrtimer_expire_entry.
package hrtimer

import (
	"errors"
	"path"
	"strings"

	"bisectd/blame"
	"bisectd/workloads"
)

// Hist is the histogram of one event.
type Hist struct {
	Event  string // e.g. timer/hrtimer_start
	Format string // the event's format file
	Text   string // the event's hist file
}

// The events and the keys that their histograms need.
const (
	start        = "hrtimer_start"         // hrtimer, function.sym and, where it exists, was_armed
	expire       = "hrtimer_expire_entry"  // function.sym
	cancel       = "hrtimer_cancel"        // hrtimer
	startExpired = "hrtimer_start_expired" // hrtimer; optional
)

// Parse tallies the histograms of one traced run. A cancel carries only the
// timer's address: it belongs to the callback that the timer was started with.
// Timers that were started with several callbacks (their memory was used
// again) or never within the run are not guessed at but counted as Unjoined.
//
// Without was_armed the histograms tell removals that were no expiry, but not
// how many of those were re-arms: Cancel then holds both and Rearm is zero. Two
// tallies of which one has WasArmed compare only by Cancel plus Rearm.
//
// An unreadable or incomplete trace is the environment's blame.
func Parse(hists []Hist) (workloads.Tally, error) {
	t, err := tally(hists)
	if err != nil {
		return workloads.Tally{}, blame.Errorf(blame.Environment, "hrtimer trace: %w", err)
	}
	return t, nil
}

func tally(hists []Hist) (workloads.Tally, error) {
	t := workloads.Tally{Callbacks: map[string]workloads.Lives{}}
	events, err := byEvent(hists, &t)
	if err != nil {
		return t, err
	}
	owners, err := countStarts(events[start], &t)
	if err != nil {
		return t, err
	}
	for _, e := range events[expire].entries {
		name := function(e.keys["function"])
		if name == "" {
			return t, errors.New(expire + ": entry without function")
		}
		add(&t, name, workloads.Lives{Expire: e.count})
	}
	if err := join(events[startExpired], owners, &t, func(n uint64) workloads.Lives {
		return workloads.Lives{Expire: n}
	}); err != nil {
		return t, err
	}
	if err := join(events[cancel], owners, &t, func(n uint64) workloads.Lives {
		return workloads.Lives{Cancel: n}
	}); err != nil {
		return t, err
	}
	if !t.WasArmed {
		subtractExpiries(events[expire], &t)
	}
	setEdges(&t)
	return t, nil
}

// byEvent parses the histograms and fills in what holds for all of them.
func byEvent(hists []Hist, t *workloads.Tally) (map[string]histogram, error) {
	events := map[string]histogram{}
	for _, h := range hists {
		name := path.Base(h.Event)
		if _, twice := events[name]; twice {
			return nil, errors.New(name + ": two histograms")
		}
		parsed, err := parseHist(h.Text)
		if err != nil {
			return nil, errors.New(name + ": " + err.Error())
		}
		if name == start {
			t.WasArmed = strings.Contains(h.Format, " was_armed;")
		}
		t.Dropped += parsed.dropped
		events[name] = parsed
	}
	for _, name := range []string{start, expire, cancel} {
		if _, ok := events[name]; !ok {
			return nil, errors.New(name + ": no histogram")
		}
	}
	return events, nil
}

// owners maps a timer's address to its callback, or to shared.
type owners map[string]string

// shared is no function's name.
const shared = ""

func countStarts(h histogram, t *workloads.Tally) (owners, error) {
	o := owners{}
	timers := map[[2]string]bool{}
	for _, e := range h.entries {
		timer, name := e.keys["hrtimer"], function(e.keys["function"])
		armed, told := e.keys["was_armed"]
		if timer == "" || name == "" || told != t.WasArmed {
			return nil, errors.New(start + ": entry without hrtimer, function or, where the event has it, was_armed")
		}
		if owner, known := o[timer]; known && owner != name {
			o[timer] = shared
		} else if !known {
			o[timer] = name
		}
		l := workloads.Lives{Start: e.count}
		if told && armed != "0" {
			l.Rearm = e.count
		}
		if !timers[[2]string{timer, name}] {
			timers[[2]string{timer, name}] = true
			l.Timers = 1
		}
		add(t, name, l)
	}
	return o, nil
}

// join attributes events that carry only the timer.
func join(h histogram, o owners, t *workloads.Tally, lives func(uint64) workloads.Lives) error {
	for _, e := range h.entries {
		timer := e.keys["hrtimer"]
		if timer == "" {
			return errors.New("entry without hrtimer")
		}
		if name := o[timer]; name != shared {
			add(t, name, lives(e.count))
		} else {
			t.Unjoined += e.count
		}
	}
	return nil
}

// subtractExpiries takes the cancels that are part of an expiry out of those
// of a kernel without was_armed. hrtimer_start_expired is none of them: such a
// timer never entered the queue.
func subtractExpiries(h histogram, t *workloads.Tally) {
	for _, e := range h.entries {
		name := function(e.keys["function"])
		l := t.Callbacks[name]
		l.Cancel -= min(l.Cancel, e.count)
		t.Callbacks[name] = l
	}
}

func add(t *workloads.Tally, name string, more workloads.Lives) {
	l := t.Callbacks[name]
	l.Start += more.Start
	l.Expire += more.Expire
	l.Cancel += more.Cancel
	l.Rearm += more.Rearm
	l.Timers += more.Timers
	t.Callbacks[name] = l
}

// ofUsers are the callbacks of the timers that user space owns: POSIX timers,
// sleeps and timeouts, setitimer(2) and timerfd. A traced program starts and
// ends them within the trace. All others may run at its ends.
var ofUsers = map[string]bool{
	"posix_timer_fn":  true,
	"hrtimer_wakeup":  true,
	"it_real_fn":      true,
	"timerfd_tmrproc": true,
}

// OfUsers tells whether user space owns the timers of a callback. Only such
// timers are a program's: the kernel's own tick at its own pace.
func OfUsers(callback string) bool { return ofUsers[callback] }

// Tolerances of the conservation law. Measured in emulated guests on a busy
// host, with milliseconds between the histograms: users' timers were conserved
// to the event, ticks were up to 20 off in 1200 starts.
const (
	userEvents, userFraction     = 8, 1000 // the agent's own sleeps; one in a thousand
	kernelEvents, kernelFraction = 64, 20
)

func setEdges(t *workloads.Tally) {
	for name, l := range t.Callbacks {
		l.Edge = kernelEvents + l.Start/kernelFraction
		if ofUsers[name] {
			l.Edge = userEvents + l.Start/userFraction
		}
		t.Callbacks[name] = l
	}
}

// Conserved tells whether every start of a callback's timers is accounted for:
//
//	start = expire + cancel + rearm + pending
//
// where each timer may have been pending at either end of the trace and Edge
// events may lie beyond them. It is false too where the trace cannot tell,
// because entries were dropped.
//
// With was_armed this shows that no expiry is lost. Without, a timer that left
// the queue and never called back looks like a cancel, so only timers that
// never left it are found.
func Conserved(l workloads.Lives, t workloads.Tally) bool {
	if t.Dropped > 0 {
		return false
	}
	slack := l.Timers + l.Edge
	ends := l.Expire + l.Cancel + l.Rearm
	return l.Start <= ends+slack+t.Unjoined && ends <= l.Start+slack
}
