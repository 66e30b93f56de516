// SPDX-License-Identifier: Apache-2.0
/* Waits of a millisecond against the clocks, both late and early. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "timerprobe.h"

/*
 * A waiter blocks for about a millisecond and sets *target to the time on
 * clock before which it must not return. It returns 0 or an errno.
 */
typedef int (*waiter)(clockid_t clock, int64_t *target);

static int wait_nanosleep(clockid_t clock, int64_t *target)
{
	struct timespec ts = to_timespec(MS);

	*target = now(clock) + MS;
	return nanosleep(&ts, NULL) ? errno : 0;
}

static int wait_absolute(clockid_t clock, int64_t *target)
{
	struct timespec ts;

	*target = now(clock) + MS;
	ts = to_timespec(*target);
	return clock_nanosleep(clock, TIMER_ABSTIME, &ts, NULL);
}

static int wait_posix_timer(clockid_t clock, int64_t *target)
{
	timer_t timer;
	int err = create(clock, COOKIE, &timer);

	if (err)
		return err;
	*target = now(clock) + MS;
	err = arm(timer, TIMER_ABSTIME, *target, 0);
	if (!err)
		err = take(SIG_TIMER, GIVE_UP, NULL);
	timer_delete(timer);
	return err;
}

static int wait_timerfd(clockid_t clock, int64_t *target)
{
	struct itimerspec its = { 0 };
	uint64_t expirations;
	int fd = timerfd_create(clock, 0), err = 0;

	if (fd < 0)
		return errno;
	*target = now(clock) + MS;
	its.it_value = to_timespec(*target);
	if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL) || read(fd, &expirations, sizeof(expirations)) < 0)
		err = errno;
	close(fd);
	return err;
}

static int wait_itimer(clockid_t clock, int64_t *target)
{
	struct itimerval it = { .it_value.tv_usec = MS / US };

	*target = now(clock) + MS;
	if (setitimer(ITIMER_REAL, &it, NULL))
		return errno;
	return take(SIGALRM, GIVE_UP, NULL);
}

/* spin varies the phase of a sample against every tick, the same way in each
 * run: a multiplicative congruential generator with a fixed seed. */
static void spin(int64_t below)
{
	static uint32_t state = 12345;
	int64_t end;

	state = state * 1103515245u + 12345u;
	end = mono() + (state >> 8) % below;
	while (mono() < end)
		;
}

/* sample_late fills l with at most samples waits, fewer when they are slow. */
static int sample_late(waiter wait, clockid_t clock, int samples, int64_t cap, struct lateness *l)
{
	int64_t end = mono() + cap, target;
	int err = 0;

	for (l->n = 0; l->n < samples && (l->n < MIN_SAMPLES || mono() < end); l->n++) {
		spin(MS);
		err = wait(clock, &target);
		if (err && err != EAGAIN)
			break;
		l->late[l->n] = now(clock) - target;
		l->wake[l->n] = mono();
	}
	qsort(l->late, l->n, sizeof(l->late[0]), compare);
	return l->n ? 0 : err;
}

/*
 * worth_repeating tells whether samples that are too late may be so because the
 * machine stalled: not when every single one is later than a stall explains.
 */
static bool worth_repeating(const struct lateness *l, int64_t median)
{
	return median > LATE_BOUND && l->late[0] < 10 * LATE_BOUND;
}

/*
 * check_late holds one interface against its time from both sides. Samples that
 * are too late are taken once more, for the machine may have stalled.
 */
static void check_late(const char *name, waiter wait, clockid_t clock, int samples, struct lateness *l)
{
	struct invariant *late = new_invariant(name, "-late", "ns");
	struct invariant *early = new_invariant(name, "-early", "ns");
	int64_t median = 0, earliest = 0;
	int attempt, err;

	l->n = 0;
	for (attempt = 0; attempt < LATE_ATTEMPTS && budget_left(); attempt++) {
		if (attempt && !worth_repeating(l, median))
			break;
		err = sample_late(wait, clock, samples, GROUP_CAP, l);
		if (err) {
			unmeasured(late, err);
			unmeasured(early, err);
			return;
		}
		median = percentile(l->late, l->n, 50);
		if (-l->late[0] > earliest)
			earliest = -l->late[0];
	}
	if (!l->n)
		return;
	judge(late, median, LATE_BOUND);
	snprintf(late->detail, sizeof(late->detail), "median of %d; 95th percentile %lld ns, longest %lld ns", l->n,
		 (long long)percentile(l->late, l->n, 95), (long long)l->late[l->n - 1]);
	histogram(late, l);
	judge(early, earliest, 0);
	snprintf(early->detail, sizeof(early->detail), "earliest of %d", l->n);
}

/* crowding is the largest fraction of wake-ups in a tenth of a period of g. */
static double crowding(const struct lateness *l, int64_t g)
{
	int i, j, in, most = 0;

	for (i = 0; i < l->n; i++) {
		for (in = 0, j = 0; j < l->n; j++)
			in += (l->wake[j] % g - l->wake[i] % g + g) % g <= g / 10;
		if (in > most)
			most = in;
	}
	return (double)most / l->n;
}

static void check_grid(struct invariant *v, const struct lateness *l)
{
	static const int64_t grids[] = { 10 * MS, 100 * MS, 500 * MS, SEC };
	int64_t p50, worst_grid = 0;
	double f, worst = 0;
	unsigned int i;

	if (l->n < MIN_SAMPLES)
		return;
	p50 = percentile(l->late, l->n, 50);
	for (i = 0; i < sizeof(grids) / sizeof(grids[0]); i++) {
		if (p50 <= GRID_FLOOR || p50 < grids[i] / 4)
			continue;
		f = crowding(l, grids[i]);
		if (f >= worst) {
			worst = f;
			worst_grid = grids[i];
		}
	}
	judge(v, worst, GRID_FRACTION);
	if (worst_grid)
		snprintf(v->detail, sizeof(v->detail), "wake-ups in one tenth of a %lld ms period",
			 (long long)(worst_grid / MS));
	else
		snprintf(v->detail, sizeof(v->detail), "the median lateness leaves no room for a grid");
}

int sample_nanosleep(int64_t duration, struct lateness *l)
{
	return sample_late(wait_nanosleep, CLOCK_MONOTONIC, MAX_SAMPLES, duration, l);
}

static struct lateness samples;

void check_nanosleep(void)
{
	if (!wanted("nanosleep", "-late") && !wanted("nanosleep", "-early") && !wanted("nanosleep", "-grid"))
		return;
	check_late("nanosleep", wait_nanosleep, CLOCK_MONOTONIC, 30, &samples);
	check_grid(new_invariant("nanosleep-grid", "", "fraction"), &samples);
}

void check_interfaces(void)
{
	static const struct {
		const char *name;
		waiter wait;
		clockid_t clock;
	} interfaces[] = {
		{ "clock-nanosleep-abs", wait_absolute, CLOCK_MONOTONIC },
		{ "clock-nanosleep-abs-realtime", wait_absolute, CLOCK_REALTIME },
		{ "clock-nanosleep-abs-boottime", wait_absolute, CLOCK_BOOTTIME },
		{ "clock-nanosleep-abs-tai", wait_absolute, CLOCK_TAI },
		{ "posix-timer", wait_posix_timer, CLOCK_MONOTONIC },
		{ "posix-timer-realtime", wait_posix_timer, CLOCK_REALTIME },
		{ "timerfd", wait_timerfd, CLOCK_MONOTONIC },
		{ "timerfd-realtime", wait_timerfd, CLOCK_REALTIME },
		{ "itimer", wait_itimer, CLOCK_MONOTONIC },
		{ "mq-timedreceive", wait_mq, CLOCK_REALTIME },
	};
	unsigned int i;

	for (i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++)
		if (wanted(interfaces[i].name, "-late") || wanted(interfaces[i].name, "-early"))
			check_late(interfaces[i].name, interfaces[i].wait, interfaces[i].clock, 10, &samples);
}
