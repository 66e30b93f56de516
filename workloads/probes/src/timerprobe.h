// SPDX-License-Identifier: Apache-2.0
/* What the parts of timerprobe share. */
#ifndef TIMERPROBE_H
#define TIMERPROBE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define US 1000LL
#define MS 1000000LL
#define SEC 1000000000LL

#define SIG_TIMER SIGRTMIN	/* queued, as POSIX requires for real-time signals */
#define COOKIE 0x5ca1ab1e	/* si_value that our timers carry */
#define FAR (1000 * SEC)	/* armed, but not within the life of the probe */
#define GIVE_UP (5 * SEC)	/* a timer this late counts as lost */
#define BUDGET (18 * SEC)	/* no new check is begun after this much time */
#define GROUP_CAP (500 * MS)	/* a group of samples slower than this is cut short */
#define MIN_SAMPLES 2
#define MAX_SAMPLES 65536
#define BUCKETS 40		/* of a histogram; the last holds all from 2^39 ns, 9 minutes, on */

#define LATE_BOUND (20 * MS)	/* see Bounds in names.go */
#define TRIP_BOUND (50 * MS)
#define STALL_BOUND (100 * MS)
#define LATE_ATTEMPTS 2
#define GRID_FLOOR (2 * MS)
#define GRID_FRACTION 0.6
#define RESUME_BOUND SEC
#define TICK_BOUND 2

/* record.c: clocks, results and their JSON */

int64_t now(clockid_t clock);	/* ns, -1 where the kernel lacks the clock */
int64_t mono(void);		/* ns of CLOCK_MONOTONIC */
void begin(void);		/* starts the time budget */
bool budget_left(void);
struct timespec to_timespec(int64_t ns);
int64_t percentile(const int64_t *sorted, int n, int percent);
int compare(const void *a, const void *b);

enum result { PASS, FAIL, NOT_MEASURED };

struct invariant {
	char name[48];
	enum result result;
	double value, bound;
	const char *unit;
	char detail[160];
	int histogram[BUCKETS];	/* bucket i: [2^i, 2^(i+1)) ns, the first all below 2 ns */
	int buckets;		/* in use; 0: the check has no histogram */
};

struct marker {
	const char *name;
	int seen, tries;
	int error;	/* errno of the call that kept it from being measured */
};

struct lateness {
	int64_t late[MAX_SAMPLES];	/* sorted */
	int64_t wake[MAX_SAMPLES];	/* CLOCK_MONOTONIC */
	int n;
};

void set_only(const char *names);	/* comma-separated; NULL: all */
bool wanted(const char *name, const char *suffix);
struct marker *new_marker(const char *name);
struct invariant *new_invariant(const char *name, const char *suffix, const char *unit);
void judge(struct invariant *v, double value, double bound);	/* passes up to bound */
void unmeasured(struct invariant *v, int err);
void histogram(struct invariant *v, const struct lateness *l);
const char *reason(int err);	/* why something was not measured */
bool print_record(void);	/* false: there was no check of a wanted name */

/* signals.c: POSIX timers, and signals that are pending when they change */

void setup_signals(void);
void on_signal(int sig, siginfo_t *info, void *context);
int set_handler(void (*handler)(int, siginfo_t *, void *));	/* NULL: ignore */
void mask(int how);
bool is_pending(void);
void drain(void);
int create(clockid_t clock, int value, timer_t *timer);
int arm(timer_t timer, int flags, int64_t value, int64_t interval);
int take(int signo, int64_t timeout, siginfo_t *info);
void check_stale(void);

/* timers.c: what the specification of POSIX timers promises */

struct ticks {
	int64_t signals, overruns, elapsed;
	int64_t low, high;	/* periods that the signals and overruns lie between */
	int64_t cpu;		/* ns of user and system time */
};

int run_periodic(int64_t duration, int64_t interval, struct ticks *t);
void check_timers(void);

/* late.c: waits against clocks */

int sample_nanosleep(int64_t duration, struct lateness *l);
void check_nanosleep(void);
void check_interfaces(void);

/* mq.c: message queues */

struct trips {
	struct lateness l;	/* durations of round trips */
	int lost;		/* messages that did not come back as they were sent */
	int64_t elapsed;	/* ns, all round trips together */
	double idle;		/* share of the time of all processors */
};

int wait_mq(clockid_t clock, int64_t *target);
int sample_trips(int samples, int64_t cap, struct trips *t);
void check_roundtrip(void);

#endif
