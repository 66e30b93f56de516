// SPDX-License-Identifier: Apache-2.0
/* Message queues: round trips between two processes that wait for each other,
 * and waits that end at their time. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "timerprobe.h"

static int open_queue(mqd_t *queue)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = sizeof(int64_t) };
	static int serial;
	char name[64];

	snprintf(name, sizeof(name), "/timerprobe-%d-%d", getpid(), serial++);
	*queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
	if (*queue == (mqd_t)-1)
		return errno;
	mq_unlink(name);
	return 0;
}

static struct timespec deadline(int64_t ns)
{
	return to_timespec(now(CLOCK_REALTIME) + ns);
}

static int send_message(mqd_t queue, int64_t message)
{
	struct timespec until = deadline(GIVE_UP);

	return mq_timedsend(queue, (char *)&message, sizeof(message), 0, &until) ? errno : 0;
}

static int receive_message(mqd_t queue, int64_t *message)
{
	struct timespec until = deadline(GIVE_UP);

	return mq_timedreceive(queue, (char *)message, sizeof(*message), NULL, &until) < 0 ? errno : 0;
}

int wait_mq(clockid_t clock, int64_t *target)
{
	struct timespec until;
	int64_t message;
	mqd_t queue;
	int err = open_queue(&queue);

	if (err)
		return err;
	*target = now(clock) + MS;
	until = to_timespec(*target);
	err = mq_timedreceive(queue, (char *)&message, sizeof(message), NULL, &until) < 0 ? errno : EIO;
	mq_close(queue);
	return err == ETIMEDOUT ? 0 : err;
}

/* The two queues and the process that sends back what it gets. */
struct echo {
	mqd_t there, back;
	pid_t child;
};

static int start_echo(struct echo *e)
{
	int64_t message;
	int err = open_queue(&e->there);

	if (err)
		return err;
	err = open_queue(&e->back);
	if (err) {
		mq_close(e->there);
		return err;
	}
	fflush(stdout);
	e->child = fork();
	if (e->child < 0)
		return errno;
	if (e->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (receive_message(e->there, &message) == 0 && send_message(e->back, message) == 0)
			;
		_exit(0);
	}
	return 0;
}

static void stop_echo(struct echo *e)
{
	kill(e->child, SIGKILL);
	waitpid(e->child, NULL, 0);
	mq_close(e->there);
	mq_close(e->back);
}

/* idle_ticks reads the idle and the total time of all processors. */
static void idle_ticks(double *idle, double *total)
{
	double t[8] = { 0 };
	FILE *f = fopen("/proc/stat", "r");
	int i;

	*idle = *total = 0;
	if (!f)
		return;
	if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) < 5)
		t[3] = t[4] = 0;
	fclose(f);
	*idle = t[3] + t[4];
	for (i = 0; i < 8; i++)
		*total += t[i];
}

/*
 * sample_trips fills t->l with the duration of at most samples round trips. One
 * that takes longer than GIVE_UP is the last; its message counts as lost.
 */
int sample_trips(int samples, int64_t cap, struct trips *t)
{
	struct lateness *l = &t->l;
	double idle, total, idle_after, total_after;
	int64_t begin, from, got;
	struct echo e;
	int err;

	l->n = 0;
	t->lost = 0;
	err = start_echo(&e);
	if (err)
		return err;
	idle_ticks(&idle, &total);
	begin = mono();
	while (l->n < samples && !err && (l->n < MIN_SAMPLES || mono() - begin < cap)) {
		from = mono();
		got = -1;
		err = send_message(e.there, from);
		if (!err)
			err = receive_message(e.back, &got);
		l->late[l->n++] = mono() - from;
		t->lost += got != from;
	}
	t->elapsed = mono() - begin;
	idle_ticks(&idle_after, &total_after);
	t->idle = total_after > total ? (idle_after - idle) / (total_after - total) : 0;
	stop_echo(&e);
	qsort(l->late, l->n, sizeof(l->late[0]), compare);
	return err == ETIMEDOUT ? 0 : err;
}

static struct trips trips;

/* judge_late judges a percentile of the round trips. Those may take long where
 * the processors are busy, not where they wait for them. */
static void judge_late(struct invariant *v, int percent, int64_t bound)
{
	judge(v, percentile(trips.l.late, trips.l.n, percent), bound);
	if (v->result == FAIL && trips.idle <= 0.5)
		v->result = NOT_MEASURED;
	snprintf(v->detail, sizeof(v->detail),
		 "%dth percentile of %d; median %lld ns, 99th %lld ns, longest %lld ns, processors idle for %.0f %%",
		 percent, trips.l.n, (long long)percentile(trips.l.late, trips.l.n, 50),
		 (long long)percentile(trips.l.late, trips.l.n, 99), (long long)trips.l.late[trips.l.n - 1], 100 * trips.idle);
}

void check_roundtrip(void)
{
	struct invariant *late, *stall, *kept;
	int attempt, err;

	if (!wanted("mq-roundtrip", "-late") && !wanted("mq-roundtrip", "-stall") && !wanted("mq-roundtrip", "-kept"))
		return;
	late = new_invariant("mq-roundtrip", "-late", "ns");
	stall = new_invariant("mq-roundtrip", "-stall", "ns");
	kept = new_invariant("mq-roundtrip", "-kept", "messages");
	for (attempt = 0; attempt < LATE_ATTEMPTS && budget_left(); attempt++) {
		if (attempt && late->result == PASS && stall->result == PASS)
			break;
		err = sample_trips(200, GROUP_CAP, &trips);
		if (err) {
			unmeasured(late, err);
			unmeasured(stall, err);
			unmeasured(kept, err);
			return;
		}
		judge_late(late, 50, TRIP_BOUND);
		histogram(late, &trips.l);
		judge_late(stall, 95, STALL_BOUND);
		judge(kept, trips.lost, 0);
		snprintf(kept->detail, sizeof(kept->detail), "%d of %d messages did not come back as they were sent",
			 trips.lost, trips.l.n);
	}
}
