// SPDX-License-Identifier: Apache-2.0
/*
 * timerprobe - what a user of the kernel's timers sees, without tracing.
 *
 *	timerprobe --mode=semantics [--only=NAME,...]
 *	timerprobe --mode=sleep|arm|periodic|mq --seconds=S [--frequency=HZ]
 *
 * One line of JSON on standard output; exit status 0 when something could be
 * measured, 2 on wrong usage. The names in it are explained by names.go.
 *
 * Only libc and system calls of Linux 4.4 are used. A call that the kernel
 * refuses makes its checks "not-measured", never a failure. The semantics mode
 * stops sampling early where timers are slow, so that it ends within about
 * 20 s even on a kernel whose sleepers wake every half second. A kernel on which
 * a sleeper never wakes leaves no record at all: the caller's timeout ends it.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

#include "timerprobe.h"

static int mode_semantics(void)
{
	check_nanosleep();
	check_stale();
	check_timers();
	check_interfaces();
	check_roundtrip();
	if (print_record())
		return 0;
	fprintf(stderr, "timerprobe: there is no such check\n");
	return 2;
}

static struct lateness samples;

static int mode_sleep(int64_t duration)
{
	int err = sample_nanosleep(duration, &samples);

	if (err) {
		fprintf(stderr, "timerprobe: nanosleep: %s\n", strerror(err));
		return 1;
	}
	printf("{\"mode\":\"sleep\",\"ops\":%d,\"values\":{\"sleep_late_p50_ns\":%lld,"
	       "\"sleep_late_p95_ns\":%lld,\"sleep_late_max_ns\":%lld}}\n", samples.n,
	       (long long)percentile(samples.late, samples.n, 50), (long long)percentile(samples.late, samples.n, 95),
	       (long long)samples.late[samples.n - 1]);
	return 0;
}

#define PAIRS 256	/* arm and disarm pairs in one timed batch */

/* time_pairs is the median batch, in nanoseconds per arm and disarm pair. */
static double time_pairs(int (*pair)(void *), void *object, int64_t duration, int64_t *ops)
{
	static int64_t batch[MAX_SAMPLES];
	int64_t end = mono() + duration, from;
	int i, n;

	for (n = 0; n < MAX_SAMPLES && (n == 0 || mono() < end); n++) {
		from = mono();
		for (i = 0; i < PAIRS; i++)
			if (pair(object))
				return -1;
		batch[n] = mono() - from;
	}
	*ops += (int64_t)n * PAIRS;
	qsort(batch, n, sizeof(batch[0]), compare);
	return (double)percentile(batch, n, 50) / PAIRS;
}

static int pair_posix(void *object)
{
	timer_t *timer = object;

	return arm(*timer, 0, FAR, 0) || arm(*timer, 0, 0, 0);
}

static int pair_timerfd(void *object)
{
	struct itimerspec far = { .it_value = to_timespec(FAR) }, off = { 0 };
	int *fd = object;

	return timerfd_settime(*fd, 0, &far, NULL) || timerfd_settime(*fd, 0, &off, NULL);
}

static int mode_arm(int64_t duration)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	double posix = -1, tfd = -1;
	int64_t ops = 0;
	timer_t timer;

	if (create(CLOCK_MONOTONIC, COOKIE, &timer) == 0)
		posix = time_pairs(pair_posix, &timer, duration / 2, &ops);
	if (fd >= 0)
		tfd = time_pairs(pair_timerfd, &fd, duration / 2, &ops);
	if (posix < 0 && tfd < 0) {
		fprintf(stderr, "timerprobe: neither POSIX timers nor timerfd can be armed\n");
		return 1;
	}
	printf("{\"mode\":\"arm\",\"ops\":%lld,\"values\":{", (long long)ops);
	if (posix >= 0)
		printf("\"arm_disarm_ns\":%.2f", posix);
	if (tfd >= 0)
		printf("%s\"timerfd_arm_ns\":%.2f", posix >= 0 ? "," : "", tfd);
	printf("}}\n");
	return 0;
}

static int mode_periodic(int64_t duration, int64_t interval)
{
	struct ticks t;
	int err = run_periodic(duration, interval, &t);
	int64_t sum;
	double s;

	if (err) {
		fprintf(stderr, "timerprobe: periodic timer: %s\n", strerror(err));
		return 1;
	}
	sum = t.signals + t.overruns;
	s = t.elapsed / 1e9;
	printf("{\"mode\":\"periodic\",\"ops\":%lld,\"values\":{\"ticks_per_s\":%.4f,\"signals_per_s\":%.4f,"
	       "\"overruns_per_s\":%.4f", (long long)sum, sum / s, t.signals / s, t.overruns / s);
	if (t.cpu > 0)
		printf(",\"ticks_per_cpu_s\":%.4f,\"signals_per_cpu_s\":%.4f", sum * 1e9 / t.cpu,
		       t.signals * 1e9 / t.cpu);
	printf("}}\n");
	return 0;
}

/* Both processes share a CPU: between two, a trip takes as long as it takes to
 * wake the other one up, which is the hypervisor's more than the kernel's. */
static int mode_mq(int64_t duration)
{
	static struct trips trips;
	const struct lateness *l = &trips.l;
	cpu_set_t one;
	int err;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	err = sample_trips(MAX_SAMPLES, duration, &trips);
	if (!err && trips.lost)
		err = ETIMEDOUT;
	if (err) {
		fprintf(stderr, "timerprobe: message queue: %s%s\n", strerror(err),
			err == ENOSYS ? " (the kernel needs CONFIG_POSIX_MQUEUE, fragment mqueue)" : "");
		return 1;
	}
	printf("{\"mode\":\"mq\",\"ops\":%d,\"values\":{\"mq_rtt_p50_ns\":%lld,\"mq_rtt_p99_ns\":%lld,"
	       "\"mq_trips_per_s\":%.4f}}\n", l->n, (long long)percentile(l->late, l->n, 50),
	       (long long)percentile(l->late, l->n, 99), l->n * 1e9 / trips.elapsed);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: timerprobe --mode=semantics [--only=NAME,...]\n"
		"       timerprobe --mode=sleep|arm|periodic|mq --seconds=S [--frequency=HZ]\n");
	return 2;
}

/* number reads a positive number below limit; -1 for anything else. */
static double number(const char *text, double limit)
{
	char *rest;
	double v = strtod(text, &rest);

	return *rest || !(v > 0 && v < limit) ? -1 : v;
}

int main(int argc, char **argv)
{
	double seconds = 1, frequency = 1000;
	const char *mode = "";
	int i;

	for (i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--mode=", 7))
			mode = argv[i] + 7;
		else if (!strncmp(argv[i], "--only=", 7))
			set_only(argv[i] + 7);
		else if (!strncmp(argv[i], "--seconds=", 10))
			seconds = number(argv[i] + 10, 3600);
		else if (!strncmp(argv[i], "--frequency=", 12))
			frequency = number(argv[i] + 12, 1e9);
		else
			return usage();
	}
	if (seconds < 0 || frequency < 0)
		return usage();

	setup_signals();
	begin();
	if (!strcmp(mode, "semantics"))
		return mode_semantics();
	if (!strcmp(mode, "sleep"))
		return mode_sleep(seconds * 1e9);
	if (!strcmp(mode, "arm"))
		return mode_arm(seconds * 1e9);
	if (!strcmp(mode, "periodic"))
		return mode_periodic(seconds * 1e9, 1e9 / frequency);
	if (!strcmp(mode, "mq"))
		return mode_mq(seconds * 1e9);
	return usage();
}
