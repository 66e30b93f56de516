// SPDX-License-Identifier: Apache-2.0
/* POSIX timers and their signals. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "timerprobe.h"

static volatile sig_atomic_t hits, wrong;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	hits++;
	if (info->si_code != SI_TIMER || info->si_value.sival_int != COOKIE)
		wrong++;
}

static int set_handler(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO };

	if (handler)
		sa.sa_sigaction = handler;
	else
		sa.sa_handler = SIG_IGN;
	return sigaction(SIG_TIMER, &sa, NULL);
}

static void mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIG_TIMER);
	sigprocmask(how, &set, NULL);
}

int create(clockid_t clock, timer_t *timer)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIG_TIMER };

	ev.sigev_value.sival_int = COOKIE;
	return timer_create(clock, &ev, timer) ? errno : 0;
}

int arm(timer_t timer, int flags, int64_t value, int64_t interval)
{
	struct itimerspec its = { .it_value = to_timespec(value), .it_interval = to_timespec(interval) };

	return timer_settime(timer, flags, &its, NULL) ? errno : 0;
}

/* take waits for one signal; 0 or an errno, EAGAIN when it never came. */
int take(int signo, int64_t timeout, siginfo_t *info)
{
	struct timespec ts = to_timespec(timeout);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	while (sigtimedwait(&set, info, &ts) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

static bool is_pending(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && sigismember(&set, SIG_TIMER) == 1;
}

/* What is done to a timer whose signal is pending before it is let through. */
enum action { LEAVE, DISARM, REARM, DELETE };

/*
 * stale_try lets a timer expire while its signal is blocked, acts on the timer
 * and unblocks the signal. It counts the signals delivered into *count.
 */
static int stale_try(enum action action, int64_t interval, int *count)
{
	int64_t limit;
	timer_t timer;
	int err;

	mask(SIG_BLOCK);
	err = create(CLOCK_MONOTONIC, &timer);
	if (err)
		return err;
	err = arm(timer, 0, 100 * US, interval);
	limit = mono() + 2 * SEC;
	while (!err && !is_pending())
		if (mono() > limit)
			err = ETIMEDOUT;
	hits = 0;
	wrong = 0;
	if (!err && action == DISARM)
		err = arm(timer, 0, 0, 0);
	if (!err && action == REARM)
		err = arm(timer, 0, FAR, interval);
	if (action == DELETE)
		timer_delete(timer);
	mask(SIG_UNBLOCK);
	*count = hits;
	mask(SIG_BLOCK);
	if (action != DELETE)
		timer_delete(timer);
	while (take(SIG_TIMER, 0, NULL) == 0)
		;
	return err;
}

static void stale_marker(const char *name, enum action action, int64_t interval)
{
	struct marker *m = new_marker(name);
	int64_t end = mono() + GROUP_CAP;
	int i, count;

	for (i = 0; i < 20 && budget_left() && (i < MIN_SAMPLES || mono() < end); i++) {
		m->error = stale_try(action, interval, &count);
		if (m->error)
			return;
		m->tries++;
		m->seen += count > 0;
	}
}

/* The control of the markers: a timer that is left alone delivers its signal,
 * once, with the right contents. */
static void check_pending_delivered(void)
{
	struct invariant *v = new_invariant("pending-signal-delivered", "", "tries");
	int64_t end = mono() + GROUP_CAP;
	int i, count, err, bad = 0;

	for (i = 0; i < 20 && budget_left() && (i < MIN_SAMPLES || mono() < end); i++) {
		err = stale_try(LEAVE, 0, &count);
		if (err) {
			snprintf(v->detail, sizeof(v->detail), "%s", reason(err));
			return;
		}
		bad += count != 1 || wrong;
	}
	if (!i)
		return;
	judge(v, bad, 0);
	snprintf(v->detail, sizeof(v->detail), "%d of %d expired timers did not deliver exactly their signal", bad, i);
}

/* check_once lets a one-shot timer expire and listens for four more periods. */
static void check_once(void)
{
	struct invariant *v = new_invariant("oneshot-fires-once", "", "tries");
	int64_t end = mono() + GROUP_CAP;
	int i, err, bad = 0;
	siginfo_t info;
	timer_t timer;

	for (i = 0; i < 10 && budget_left() && (i < MIN_SAMPLES || mono() < end); i++) {
		err = create(CLOCK_MONOTONIC, &timer);
		if (err) {
			snprintf(v->detail, sizeof(v->detail), "timer_create: %s", reason(err));
			return;
		}
		memset(&info, 0, sizeof(info));
		arm(timer, 0, MS, 0);
		err = take(SIG_TIMER, GIVE_UP, &info);
		bad += err || info.si_code != SI_TIMER || info.si_value.sival_int != COOKIE ||
		       timer_getoverrun(timer) != 0 || take(SIG_TIMER, 4 * MS, &info) == 0;
		timer_delete(timer);
	}
	if (!i)
		return;
	judge(v, bad, 0);
	snprintf(v->detail, sizeof(v->detail), "%d of %d one-shot timers gave other than one signal", bad, i);
}

/*
 * count_ticks runs a 1 kHz timer, never re-armed, and accounts for every
 * period. At a dequeue the kernel adds all periods gone by to the overrun
 * count, so after one last signal the sum lies between the periods before the
 * wait began and those when it ended, however late the signals were.
 */
int count_ticks(int64_t duration, struct ticks *t)
{
	int64_t before, after, last;
	timer_t timer;
	int err;

	memset(t, 0, sizeof(*t));
	err = create(CLOCK_MONOTONIC, &timer);
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
	while (take(SIG_TIMER, 0, NULL) == 0)
		;
	return err;
}

static void check_periodic(void)
{
	struct invariant *v = new_invariant("periodic-ticks-accounted", "", "ticks");
	int64_t sum, off;
	struct ticks t;
	int err;

	if (!budget_left())
		return;
	err = count_ticks(500 * MS, &t);
	if (err && err != EAGAIN) {
		snprintf(v->detail, sizeof(v->detail), "%s", reason(err));
		return;
	}
	sum = t.signals + t.overruns;
	off = sum < t.low ? t.low - sum : sum > t.high ? sum - t.high : 0;
	judge(v, off, TICK_BOUND);
	snprintf(v->detail, sizeof(v->detail), "%lld signals and %lld overruns in %lld to %lld periods",
		 (long long)t.signals, (long long)t.overruns, (long long)t.low, (long long)t.high);
}

/* check_resumes ignores the signal of a periodic timer for some periods. Once
 * there is a handler again the signal has to come. */
static void check_resumes(void)
{
	struct invariant *v = new_invariant("ignored-timer-resumes", "", "ns");
	int64_t from;
	timer_t timer;
	int err;

	if (!budget_left())
		return;
	err = create(CLOCK_MONOTONIC, &timer);
	if (err) {
		snprintf(v->detail, sizeof(v->detail), "timer_create: %s", reason(err));
		return;
	}
	set_handler(NULL);
	mask(SIG_UNBLOCK);
	arm(timer, 0, 2 * MS, 2 * MS);
	from = mono();
	while (mono() - from < 10 * MS)
		;
	mask(SIG_BLOCK);
	set_handler(on_signal);
	from = mono();
	err = take(SIG_TIMER, GIVE_UP, NULL);
	judge(v, mono() - from, RESUME_BOUND);
	snprintf(v->detail, sizeof(v->detail), "%s after the signal was no longer ignored",
		 err ? "no signal" : "first signal");
	timer_delete(timer);
	while (take(SIG_TIMER, 0, NULL) == 0)
		;
}

void setup_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIG_TIMER);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	set_handler(on_signal);
}

void check_signals(void)
{
	check_pending_delivered();
	stale_marker("stale-signal-after-disarm", DISARM, 0);
	stale_marker("stale-signal-after-rearm", REARM, 0);
	stale_marker("stale-signal-after-disarm-periodic", DISARM, 100 * MS);
	stale_marker("stale-signal-after-rearm-periodic", REARM, 100 * MS);
	stale_marker("stale-signal-after-delete", DELETE, 0);
	check_once();
	check_periodic();
	check_resumes();
}
