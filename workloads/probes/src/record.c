// SPDX-License-Identifier: Apache-2.0
/* Clocks, results and their JSON. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "timerprobe.h"

static int64_t started;

struct timespec to_timespec(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / SEC, .tv_nsec = ns % SEC };
}

int64_t now(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts) != 0)
		return -1;
	return ts.tv_sec * SEC + ts.tv_nsec;
}

int64_t mono(void)
{
	return now(CLOCK_MONOTONIC);
}

void begin(void)
{
	started = mono();
}

bool budget_left(void)
{
	return mono() - started < BUDGET;
}

int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* percentile is the nearest-rank percentile, 1 to 100, of n > 0 sorted values. */
int64_t percentile(const int64_t *sorted, int n, int percent)
{
	return sorted[(percent * n + 99) / 100 - 1];
}

static const char *const result_names[] = { "pass", "fail", "not-measured" };

static struct invariant invariants[64];
static unsigned int n_invariants;
static struct marker markers[8];
static unsigned int n_markers;

static const char *only;

void set_only(const char *names)
{
	only = names;
}

bool wanted(const char *name, const char *suffix)
{
	char full[48];
	const char *at = only;
	size_t n;

	if (!only)
		return true;
	n = snprintf(full, sizeof(full), "%s%s", name, suffix);
	for (; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, full, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

const char *reason(int err)
{
	if (!err)
		return "not reached within the time budget";
	return err == ETIMEDOUT ? "the timer did not expire in time" : strerror(err);
}

struct marker *new_marker(const char *name)
{
	struct marker *m = &markers[n_markers++];

	m->name = name;
	return m;
}

struct invariant *new_invariant(const char *name, const char *suffix, const char *unit)
{
	struct invariant *v = &invariants[n_invariants++];

	snprintf(v->name, sizeof(v->name), "%s%s", name, suffix);
	v->unit = unit;
	v->result = NOT_MEASURED;
	snprintf(v->detail, sizeof(v->detail), "%s", reason(0));
	return v;
}

void judge(struct invariant *v, double value, double bound)
{
	v->value = value;
	v->bound = bound;
	v->result = value <= bound ? PASS : FAIL;
}

void unmeasured(struct invariant *v, int err)
{
	v->result = NOT_MEASURED;
	snprintf(v->detail, sizeof(v->detail), "%s", reason(err));
}

void histogram(struct invariant *v, const struct lateness *l)
{
	int i, bucket;

	memset(v->histogram, 0, sizeof(v->histogram));
	v->buckets = 0;
	for (i = 0; i < l->n; i++) {
		bucket = l->late[i] < 2 ? 0 : 63 - __builtin_clzll(l->late[i]);
		if (bucket >= BUCKETS)
			bucket = BUCKETS - 1;
		v->histogram[bucket]++;
		if (bucket >= v->buckets)
			v->buckets = bucket + 1;
	}
}

static void print_invariant(const struct invariant *v)
{
	int i;

	printf("{\"name\":\"%s\",\"result\":\"%s\",\"value\":%.10g,\"bound\":%.10g,\"unit\":\"%s\",\"detail\":\"%s\"",
	       v->name, result_names[v->result], v->value, v->bound, v->unit, v->detail);
	for (i = 0; i < v->buckets; i++)
		printf("%s%d", i ? "," : ",\"histogram\":[", v->histogram[i]);
	printf("%s}", v->buckets ? "]" : "");
}

bool print_record(void)
{
	unsigned int i;

	if (!n_markers && !n_invariants)
		return false;

	printf("{\"mode\":\"semantics\",\"elapsed_ns\":%lld,\"markers\":[", (long long)(mono() - started));
	for (i = 0; i < n_markers; i++) {
		const struct marker *m = &markers[i];
		bool measured = m->tries > 0;

		printf("%s{\"name\":\"%s\",\"measured\":%s,\"seen\":%s,\"clear\":%s,\"detail\":\"",
		       i ? "," : "", m->name, measured ? "true" : "false",
		       measured && 2 * m->seen > m->tries ? "true" : "false",
		       measured && (m->seen == 0 || m->seen == m->tries) ? "true" : "false");
		if (measured)
			printf("%d/%d\"}", m->seen, m->tries);
		else
			printf("%s\"}", reason(m->error));
	}
	printf("],\"invariants\":[");
	for (i = 0; i < n_invariants; i++) {
		if (i)
			putchar(',');
		print_invariant(&invariants[i]);
	}
	printf("]}\n");
	return true;
}
