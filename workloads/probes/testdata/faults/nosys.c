// SPDX-License-Identifier: Apache-2.0
/* A kernel without POSIX timers, timerfd and message queues. */
#include <errno.h>
#include <mqueue.h>
#include <signal.h>
#include <time.h>

int __wrap_timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	(void)clock;
	(void)event;
	(void)timer;
	errno = ENOSYS;
	return -1;
}

int __wrap_timerfd_create(int clock, int flags)
{
	(void)clock;
	(void)flags;
	errno = ENOSYS;
	return -1;
}

mqd_t __wrap_mq_open(const char *name, int flags, ...)
{
	(void)name;
	(void)flags;
	errno = ENOSYS;
	return -1;
}
