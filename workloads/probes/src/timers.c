// SPDX-License-Identifier: Apache-2.0
/* What the specification of POSIX timers promises, and a user who relies on
 * nothing else. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <ucontext.h>

#include "timerprobe.h"

/* check_once lets a one-shot timer expire and listens for four more periods. */
static void check_once(struct invariant *v)
{
	int64_t end = mono() + GROUP_CAP;
	int i, err, bad = 0;
	siginfo_t info;
	timer_t timer;

	for (i = 0; i < 10 && budget_left() && (i < MIN_SAMPLES || mono() < end); i++) {
		err = create(CLOCK_MONOTONIC, COOKIE, &timer);
		if (err) {
			unmeasured(v, err);
			return;
		}
		memset(&info, 0, sizeof(info));
		arm(timer, 0, MS, 0);
		err = take(SIG_TIMER, GIVE_UP, &info);
		bad += err || info.si_code != SI_TIMER || info.si_value.sival_int != COOKIE ||
		       timer_getoverrun(timer) != 0 || take(SIG_TIMER, 4 * MS, &info) == 0;
		timer_delete(timer);
	}
	judge(v, bad, 0);
	snprintf(v->detail, sizeof(v->detail), "%d of %d one-shot timers gave other than one signal", bad, i);
}

/*
 * take_two lets both timers expire and takes two signals. It returns how many
 * of them were not one of each timer, by si_value and by the timer's id, which
 * is learned from the first signal of each (-1: not yet known).
 */
static int take_two(timer_t timers[2], int ids[2])
{
	bool seen[2] = { false, false };
	int i, k, bad = 0;
	siginfo_t info;

	arm(timers[0], 0, 100 * US, 0);
	arm(timers[1], 0, 150 * US, 0);
	for (i = 0; i < 2; i++) {
		memset(&info, 0, sizeof(info));
		if (take(SIG_TIMER, GIVE_UP, &info))
			return bad + 2 - i;
		k = info.si_value.sival_int - COOKIE;
		if (info.si_code != SI_TIMER || k < 0 || k > 1 || seen[k]) {
			bad++;
			continue;
		}
		seen[k] = true;
		if (ids[k] < 0)
			ids[k] = info.si_timerid;
		bad += info.si_timerid != ids[k] || ids[k] == ids[1 - k];
	}
	return bad;
}

/* check_identity tells the signals of two timers apart. */
static void check_identity(struct invariant *v)
{
	int64_t end = mono() + GROUP_CAP;
	int ids[2] = { -1, -1 };
	int i, err, bad = 0;
	timer_t timers[2];

	err = create(CLOCK_MONOTONIC, COOKIE, &timers[0]);
	if (!err) {
		err = create(CLOCK_MONOTONIC, COOKIE + 1, &timers[1]);
		if (err)
			timer_delete(timers[0]);
	}
	if (err) {
		unmeasured(v, err);
		return;
	}
	for (i = 0; i < 10 && budget_left() && (i < MIN_SAMPLES || mono() < end); i++)
		bad += take_two(timers, ids);
	timer_delete(timers[0]);
	timer_delete(timers[1]);
	drain();
	judge(v, bad, 0);
	snprintf(v->detail, sizeof(v->detail), "%d of %d signals did not tell which of two timers expired", bad, 2 * i);
}

/* The timer whose signals are handled, and what its handler saw. */
static timer_t handled;
static volatile int64_t handler_signals, handler_overruns, handler_differing, handler_last;

/* on_handled leaves the signal blocked from tick handler_last on: of a fast
 * timer there is always another signal, and only handlers would run. */
static void on_handled(int sig, siginfo_t *info, void *context)
{
	int overruns = timer_getoverrun(handled);

	handler_signals++;
	handler_overruns += overruns;
	handler_differing += info->si_overrun != overruns;
	if (handler_signals + handler_overruns >= handler_last)
		sigaddset(&((ucontext_t *)context)->uc_sigmask, sig);
}

/* handle creates the timer that on_handled serves, for so many ticks. */
static int handle(clockid_t clock, int64_t ticks)
{
	handler_signals = handler_overruns = handler_differing = 0;
	handler_last = ticks;
	set_handler(on_handled);
	return create(clock, COOKIE, &handled);
}

static void handle_no_more(void)
{
	mask(SIG_BLOCK);
	timer_delete(handled);
	drain();
	set_handler(on_signal);
}

/* check_overrun blocks the signal of a periodic timer for some periods and
 * compares the overruns that the handler is told with those it asks for. */
static void check_overrun(struct invariant *v)
{
	int err = handle(CLOCK_MONOTONIC, INT64_MAX), i;
	int64_t from;

	if (err) {
		unmeasured(v, err);
		return;
	}
	arm(handled, 0, MS, MS);
	for (i = 0; i < 5; i++) {
		for (from = mono(); mono() - from < 4 * MS || (!is_pending() && mono() - from < SEC);)
			;
		mask(SIG_UNBLOCK);
		mask(SIG_BLOCK);
	}
	handle_no_more();
	if (!handler_signals) {
		unmeasured(v, ETIMEDOUT);
		return;
	}
	judge(v, handler_differing, 0);
	snprintf(v->detail, sizeof(v->detail), "%lld of %lld signals, with %lld overruns, told another number of them",
		 (long long)handler_differing, (long long)handler_signals, (long long)handler_overruns);
}

/*
 * count_ticks runs a 1 kHz timer, never re-armed, and accounts for every
 * period. At a dequeue the kernel adds all periods gone by to the overrun
 * count, so after one last signal the sum lies between the periods before the
 * wait began and those when it ended, however late the signals were.
 */
static int count_ticks(int64_t duration, struct ticks *t)
{
	int64_t before, after, last;
	timer_t timer;
	int err;

	memset(t, 0, sizeof(*t));
	err = create(CLOCK_MONOTONIC, COOKIE, &timer);
	if (err)
		return err;
	before = mono();
	err = arm(timer, 0, MS, MS);
	after = mono();
	do {
		last = mono();
		if (err)
			break;
		err = take(SIG_TIMER, GIVE_UP, NULL);
		if (err)
			break;
		t->signals++;
		t->overruns += timer_getoverrun(timer);
	} while (last - before < duration);
	t->elapsed = mono() - before;
	t->low = (last - after) / MS;
	t->high = t->elapsed / MS;
	timer_delete(timer);
	drain();
	return err;
}

static void check_periodic(struct invariant *v)
{
	int64_t sum, off;
	struct ticks t;
	int err = count_ticks(500 * MS, &t);

	if (err && err != EAGAIN) {
		unmeasured(v, err);
		return;
	}
	sum = t.signals + t.overruns;
	off = sum < t.low ? t.low - sum : sum > t.high ? sum - t.high : 0;
	judge(v, off, TICK_BOUND);
	snprintf(v->detail, sizeof(v->detail), "%lld signals and %lld overruns in %lld to %lld periods",
		 (long long)t.signals, (long long)t.overruns, (long long)t.low, (long long)t.high);
}

/*
 * expire_ignored ignores the signal of a timer until it has expired, when a
 * whole interval is ahead again, and then blocks the signal and sets a handler.
 */
static int expire_ignored(timer_t *timer, int64_t interval)
{
	int64_t limit = mono() + SEC;
	struct itimerspec left = { 0 };
	int err = create(CLOCK_MONOTONIC, COOKIE, timer);

	if (err)
		return err;
	set_handler(NULL);
	mask(SIG_UNBLOCK);
	err = arm(*timer, 0, 100 * US, interval);
	while (!err && left.it_value.tv_sec * SEC + left.it_value.tv_nsec < interval / 2)
		if (timer_gettime(*timer, &left))
			err = errno;
		else if (mono() > limit)
			err = ETIMEDOUT;
	mask(SIG_BLOCK);
	set_handler(on_signal);
	if (err)
		timer_delete(*timer);
	return err;
}

/* check_resumes asks whether a timer that expired in vain goes on. */
static void check_resumes(struct invariant *v)
{
	timer_t timer;
	int64_t from;
	int err = expire_ignored(&timer, 2 * MS);

	if (err) {
		unmeasured(v, err);
		return;
	}
	from = mono();
	err = take(SIG_TIMER, GIVE_UP, NULL);
	judge(v, mono() - from, RESUME_BOUND);
	snprintf(v->detail, sizeof(v->detail), "%s after the signal was no longer ignored",
		 err ? "no signal" : "first signal");
	timer_delete(timer);
	drain();
}

/*
 * check_ignored looks for the signal right after there is a handler, with half
 * a second to go to the next expiry: only a kernel that kept the one which was
 * ignored can have it pending.
 */
static void check_ignored(void)
{
	struct marker *m = new_marker("ignored-signal-kept");
	int64_t end = mono() + GROUP_CAP;
	timer_t timer;
	int i;

	for (i = 0; i < 20 && budget_left() && (i < MIN_SAMPLES || mono() < end); i++) {
		m->error = expire_ignored(&timer, SEC);
		if (m->error)
			return;
		m->tries++;
		m->seen += is_pending();
		timer_delete(timer);
		drain();
	}
}

void check_timers(void)
{
	static const struct {
		const char *name, *unit;
		void (*check)(struct invariant *v);
	} checks[] = {
		{ "oneshot-fires-once", "tries", check_once },
		{ "timer-identity", "signals", check_identity },
		{ "overrun-in-handler", "signals", check_overrun },
		{ "periodic-ticks-accounted", "ticks", check_periodic },
		{ "ignored-timer-resumes", "ns", check_resumes },
	};
	struct invariant *v;
	unsigned int i;

	for (i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (!wanted(checks[i].name, ""))
			continue;
		v = new_invariant(checks[i].name, "", checks[i].unit);
		if (budget_left())
			checks[i].check(v);
	}
	if (wanted("ignored-signal-kept", ""))
		check_ignored();
}

static int64_t cpu_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * SEC + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * US;
}

/*
 * run_periodic is a program that uses a periodic timer as documented: the timer
 * is armed once, a handler counts, and the program sleeps for 10 ms at a time
 * in between. It is the shape of stress-ng's timer stressor from 0.19.04 on,
 * which re-armed the timer in the handler before. A last signal, waited for,
 * brings in the periods since the handler ran last.
 */
int run_periodic(int64_t duration, int64_t interval, struct ticks *t)
{
	const struct timespec pause = to_timespec(10 * MS);
	int err = handle(CLOCK_REALTIME, duration / interval);
	int64_t from, cpu;

	if (err)
		return err;
	cpu = cpu_time();
	from = mono();
	err = arm(handled, 0, interval, interval);
	mask(SIG_UNBLOCK);
	while (!err && mono() - from < duration)
		nanosleep(&pause, NULL);
	mask(SIG_BLOCK);
	if (!err)
		err = take(SIG_TIMER, GIVE_UP, NULL);
	t->signals = handler_signals + 1;
	t->overruns = handler_overruns + timer_getoverrun(handled);
	t->elapsed = mono() - from;
	t->cpu = cpu_time() - cpu;
	handle_no_more();
	return err;
}
