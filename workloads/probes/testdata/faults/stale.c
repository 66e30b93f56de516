// SPDX-License-Identifier: Apache-2.0
/* Disarming and re-arming far in the future leave a pending signal alone. */
#include <stddef.h>
#include <time.h>

int __real_timer_settime(timer_t timer, int flags, const struct itimerspec *its, struct itimerspec *old);

int __wrap_timer_settime(timer_t timer, int flags, const struct itimerspec *its, struct itimerspec *old)
{
	int off = its->it_value.tv_sec == 0 && its->it_value.tv_nsec == 0;

	if (off || its->it_value.tv_sec == 1000)
		return 0;
	return __real_timer_settime(timer, flags, its, old);
}
