// SPDX-License-Identifier: Apache-2.0
/* Every signal claims to be of the same timer. */
#include <signal.h>
#include <stddef.h>

int __real_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout);

int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	int sig = __real_sigtimedwait(set, info, timeout);

	if (info)
		info->si_timerid = 7;
	return sig;
}
