package probes

// Markers: what POSIX leaves open. timer_settime(2) with a pending expiration
// notification is unspecified ("the effect of disarming or resetting a timer
// with pending expiration notifications is unspecified", POSIX.1-2017,
// timer_settime), and so is the notification of a deleted timer. Linux
// delivered such a signal up to 6.12 and drops it since commit 513793bc6ab3
// (6.13). Each marker counts 20 timers whose signal was blocked, pending and
// then acted upon before it was unblocked.
const (
	// StaleDisarm: a one-shot timer was disarmed.
	StaleDisarm = "stale-signal-after-disarm"
	// StaleRearm: a one-shot timer was armed again, far in the future.
	StaleRearm = "stale-signal-after-rearm"
	// StaleDisarmPeriodic: a timer with an interval was disarmed.
	StaleDisarmPeriodic = "stale-signal-after-disarm-periodic"
	// StaleRearmPeriodic: a timer with an interval was armed again.
	StaleRearmPeriodic = "stale-signal-after-rearm-periodic"
	// StaleDelete: a one-shot timer was deleted.
	StaleDelete = "stale-signal-after-delete"
)

// IgnoredKept is a marker of its own: a periodic timer expired while its signal
// was ignored, and the signal is pending as soon as there is a handler, half a
// second before the next expiry. POSIX says that an ignored signal has no
// effect, not how a timer goes on whose signal has none. Up to 6.12 Linux let
// such a timer expire again and again; from 6.13 on it parks the timer and
// delivers the signal once it is wanted. How often the kernel wakes up for an
// ignored timer cannot be seen from user space: that is for the trace.
const IgnoredKept = "ignored-signal-kept"

// Invariants: what every correct user relies on. The bounds are those of
// timerprobe.c and hold on an idle as well as on a loaded or emulated machine.
const (
	// PendingDelivered: a timer that is left alone after its expiry delivers
	// exactly one signal, with si_code SI_TIMER and its own si_value. It is
	// the control of the markers: where it fails, they say nothing. Bound:
	// no failed try.
	PendingDelivered = "pending-signal-delivered"
	// OneshotOnce: a one-shot timer gives one signal without overruns, and
	// none in the four periods after it. Bound: no failed try.
	OneshotOnce = "oneshot-fires-once"
	// TimerIdentity: of two timers that expire together, each signal carries
	// its own si_value and, always the same and another than the other's,
	// si_timerid. Bound: no signal that does not.
	TimerIdentity = "timer-identity"
	// OverrunInHandler: si_overrun, as a handler is told, equals what
	// timer_getoverrun(2) returns in it, of a 1 kHz timer whose signal was
	// blocked for 4 ms. Bound: no signal that differs.
	OverrunInHandler = "overrun-in-handler"
	// PeriodicTicks: signals plus overruns of a 1 kHz timer that is never
	// re-armed account for every period of half a second. The expected
	// number is bracketed by clock reads around the last wait, so late
	// signals do not count against it. Bound: 2 ticks outside the bracket,
	// one for the rounding at each end.
	PeriodicTicks = "periodic-ticks-accounted"
	// IgnoredResumes: the signal of a periodic 2 ms timer that was ignored
	// for a while comes once there is a handler again. Bound: 1 s, that is
	// "at all"; a single sample cannot carry a finer one.
	IgnoredResumes = "ignored-timer-resumes"
	// RoundtripLate: the median of 200 round trips of a message between two
	// processes that block in mq_timedreceive(2) for each other. Bound: 50 ms,
	// which is two ticks at HZ=100, and seven times what it takes to wake the
	// other of two emulated processors on a host with twice the work it can
	// do. It is not measured where round trips are late and the processors
	// were busy for half of the time or more: what they had no time for may
	// come late.
	RoundtripLate = "mq-roundtrip-late"
	// RoundtripStall: their 95th percentile, on the same condition. Bound:
	// 100 ms; the guest on the busy host stays below 20 ms.
	RoundtripStall = "mq-roundtrip-stall"
	// RoundtripKept: each message comes back as it was sent. Bound: none lost.
	RoundtripKept = "mq-roundtrip-kept"
	// NanosleepGrid: the largest fraction of wake-up times that fall into one
	// tenth of a period of 10 ms, 100 ms, 500 ms or 1 s. Evaluated only where
	// the median lateness is above 2 ms and above a quarter of the period;
	// otherwise 0. Bound: 0.6, where 30 wake-ups without a grid reach about
	// 0.27 and 0.6 by chance less than once in a million boots.
	NanosleepGrid = "nanosleep-grid"
)

// Interfaces are the ways to wait for a millisecond that are timed. Each has
// two invariants: InterfaceLate and InterfaceEarly of its name.
var Interfaces = map[string]string{
	"nanosleep":                    "nanosleep(2), relative, against CLOCK_MONOTONIC",
	"clock-nanosleep-abs":          "clock_nanosleep(2) with TIMER_ABSTIME on CLOCK_MONOTONIC",
	"clock-nanosleep-abs-realtime": "clock_nanosleep(2) with TIMER_ABSTIME on CLOCK_REALTIME",
	"clock-nanosleep-abs-boottime": "clock_nanosleep(2) with TIMER_ABSTIME on CLOCK_BOOTTIME",
	"clock-nanosleep-abs-tai":      "clock_nanosleep(2) with TIMER_ABSTIME on CLOCK_TAI",
	"posix-timer":                  "timer_settime(2) with TIMER_ABSTIME on CLOCK_MONOTONIC and sigtimedwait(2)",
	"posix-timer-realtime":         "timer_settime(2) with TIMER_ABSTIME on CLOCK_REALTIME and sigtimedwait(2)",
	"timerfd":                      "timerfd_settime(2) with TFD_TIMER_ABSTIME on CLOCK_MONOTONIC and read(2)",
	"timerfd-realtime":             "timerfd_settime(2) with TFD_TIMER_ABSTIME on CLOCK_REALTIME and read(2)",
	"itimer":                       "setitimer(2) with ITIMER_REAL and sigtimedwait(2), against CLOCK_MONOTONIC",
	"mq-timedreceive":              "mq_timedreceive(2) on an empty queue, against CLOCK_REALTIME",
}

// InterfaceLate is the invariant that half of the waits of an interface end
// within 20 ms of their time. An emulated guest on a loaded host stays below
// 5 ms, a second sample allowed, and a kernel without high-resolution timers below two ticks of 10 ms,
// while sleepers that wake on a half-second grid are some 250 ms late.
func InterfaceLate(name string) string { return name + "-late" }

// InterfaceEarly is the invariant that no wait of an interface ends before its
// time. POSIX forbids it outright (nanosleep, clock_nanosleep, timer_settime),
// so the bound is 0 ns.
func InterfaceEarly(name string) string { return name + "-early" }

// meanings holds one sentence per name, for reports.
var meanings = map[string]string{
	StaleDisarm: "After a one-shot timer was disarmed, the signal of its earlier expiry was still delivered.",
	StaleRearm:  "After a one-shot timer was re-armed, the signal of its earlier expiry was still delivered.",
	StaleDisarmPeriodic: "After a periodic timer was disarmed, the signal of its earlier expiry was " +
		"still delivered.",
	StaleRearmPeriodic: "After a periodic timer was re-armed, the signal of its earlier expiry was " +
		"still delivered.",
	StaleDelete:      "After a timer was deleted, the signal of its earlier expiry was still delivered.",
	IgnoredKept:      "A signal that a periodic timer sent while it was ignored was delivered once there was a handler.",
	PendingDelivered: "A timer that has expired and is left alone delivers exactly one signal, with its own value.",
	OneshotOnce:      "A one-shot timer fires exactly once.",
	TimerIdentity:    "Signals of two timers carry their own si_value and si_timerid.",
	OverrunInHandler: "A handler is told the overruns in si_overrun that timer_getoverrun() returns.",
	PeriodicTicks:    "Signals and overruns of a periodic timer account for every period.",
	IgnoredResumes:   "A periodic timer whose signal was ignored delivers again once there is a handler.",
	RoundtripLate:    "Half of the messages between two processes come back within 50 ms while processors are idle.",
	RoundtripStall:   "Messages between two processes come back within 100 ms while processors are idle.",
	RoundtripKept:    "No message is lost or altered.",
	NanosleepGrid:    "Sleepers wake at their own time, not all on one coarse grid.",
}

func init() {
	for name, how := range Interfaces {
		meanings[InterfaceLate(name)] = "Half of the waits end within 20 ms of their time: " + how + "."
		meanings[InterfaceEarly(name)] = "No wait ends before its time: " + how + "."
	}
}

// Meaning returns one sentence for reports that says what a marker states when
// it was seen, or what an invariant promises. It is empty for unknown names.
func Meaning(name string) string { return meanings[name] }
