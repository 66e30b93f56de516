// SPDX-License-Identifier: Apache-2.0
/* POSIX timers, their signals, and what becomes of a signal that is pending
 * when its timer is touched. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "timerprobe.h"

static volatile sig_atomic_t hits, wrong;

void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	hits++;
	if (info->si_code != SI_TIMER || info->si_value.sival_int != COOKIE)
		wrong++;
}

int set_handler(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO };

	if (handler)
		sa.sa_sigaction = handler;
	else
		sa.sa_handler = SIG_IGN;
	return sigaction(SIG_TIMER, &sa, NULL);
}

void mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIG_TIMER);
	sigprocmask(how, &set, NULL);
}

int create(clockid_t clock, int value, timer_t *timer)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIG_TIMER };

	ev.sigev_value.sival_int = value;
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

/* drain takes the signals that a deleted timer left behind. */
void drain(void)
{
	while (take(SIG_TIMER, 0, NULL) == 0)
		;
}

bool is_pending(void)
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
	err = create(CLOCK_MONOTONIC, COOKIE, &timer);
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
	drain();
	return err;
}

static void stale_marker(const char *name, enum action action, int64_t interval)
{
	int64_t end = mono() + GROUP_CAP;
	struct marker *m;
	int i, count;

	if (!wanted(name, ""))
		return;
	m = new_marker(name);
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

void setup_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIG_TIMER);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	set_handler(on_signal);
}

void check_stale(void)
{
	static const struct {
		const char *name;
		enum action action;
		int64_t interval;
	} markers[] = {
		{ "stale-signal-after-disarm", DISARM, 0 },
		{ "stale-signal-after-rearm", REARM, 0 },
		{ "stale-signal-after-disarm-periodic", DISARM, 100 * MS },
		{ "stale-signal-after-rearm-periodic", REARM, 100 * MS },
		{ "stale-signal-after-delete", DELETE, 0 },
	};
	unsigned int i, n = sizeof(markers) / sizeof(markers[0]);
	bool needed = wanted("pending-signal-delivered", "");

	for (i = 0; i < n; i++)
		needed = needed || wanted(markers[i].name, "");
	if (!needed)
		return;
	check_pending_delivered();
	for (i = 0; i < n; i++)
		stale_marker(markers[i].name, markers[i].action, markers[i].interval);
}
