// SPDX-License-Identifier: Apache-2.0
/* Sleepers wake on a half-second grid. */
#include <time.h>

int __real_nanosleep(const struct timespec *ts, struct timespec *left);

int __wrap_nanosleep(const struct timespec *ts, struct timespec *left)
{
	struct timespec now, until;

	clock_gettime(CLOCK_MONOTONIC, &now);
	until.tv_sec = now.tv_sec + (now.tv_nsec >= 500000000);
	until.tv_nsec = now.tv_nsec >= 500000000 ? 0 : 500000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
	return __real_nanosleep(ts, left);
}
