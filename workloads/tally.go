package workloads

// Tally counts the lives of the high-resolution timers of one traced run, per
// callback function.
type Tally struct {
	Callbacks map[string]Lives `json:"callbacks"` // key: callback, e.g. posix_timer_fn
	// WasArmed tells that hrtimer_start carries was_armed=: a re-arm then
	// emits no hrtimer_cancel (kernel commit f2e388a019e4). Without it
	// hrtimer_cancel is emitted at every expiry and every re-arm too.
	WasArmed bool `json:"was_armed"`
	// Dropped counts histogram entries the kernel could not store. A tally
	// with any is lossy and proves nothing.
	Dropped uint64 `json:"dropped"`
	// Unjoined counts cancels (and expiries at the start) whose timer was
	// never seen starting, or that several callbacks shared.
	Unjoined uint64 `json:"unjoined"`
}

// Lives counts what happened to the timers of one callback.
type Lives struct {
	Start  uint64 `json:"start"`  // hrtimer_start
	Expire uint64 `json:"expire"` // hrtimer_expire_entry
	Cancel uint64 `json:"cancel"` // cancelled and neither expired nor re-armed by it
	Rearm  uint64 `json:"rearm"`  // started while armed
	Timers uint64 `json:"timers"` // distinct hrtimer objects: bound on those pending at the ends
	// Edge bounds the events that may be missing or surplus at the ends of
	// the trace: the kernel's own timers run while the histograms are
	// switched on and off one after the other, the workload's do not.
	Edge uint64 `json:"edge"`
}
