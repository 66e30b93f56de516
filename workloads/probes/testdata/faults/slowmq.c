// SPDX-License-Identifier: Apache-2.0
/* Messages are altered and take 60 ms each way, while the processors are idle. */
#include <mqueue.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int __real_mq_timedsend(mqd_t queue, const char *text, size_t n, unsigned int priority, const struct timespec *until);

int __wrap_mq_timedsend(mqd_t queue, const char *text, size_t n, unsigned int priority, const struct timespec *until)
{
	struct timespec pause = { .tv_nsec = 60000000 };
	int64_t message;

	memcpy(&message, text, sizeof(message));
	message++;
	while (nanosleep(&pause, &pause))
		;
	return __real_mq_timedsend(queue, (char *)&message, n, priority, until);
}

#ifndef PROCESSORS
#define PROCESSORS "cpu 0 0 0 %d"
#endif

/* The only file that is read is /proc/stat. */
FILE *__wrap_fopen(const char *path, const char *mode)
{
	static char text[64];
	static int reads;

	(void)path;
	snprintf(text, sizeof(text), PROCESSORS " 0 0 0 0\n", 100 * reads++);
	return fmemopen(text, strlen(text), mode);
}
