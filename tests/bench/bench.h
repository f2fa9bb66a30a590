/*
 * bench: what the benchmark programs share: clock, pinning, medians, the output line.
 *
 * Every figure is a ratio to a floor that the same run measures: passes alternate the two
 * sides, the ratio is taken inside each pass, and the median over the passes is printed.
 * Only medians of ratios are compared with a bound; absolute times are for the reader.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PASSES_MAX 64

/* One figure over passes. */
struct series {
	double product[PASSES_MAX], base[PASSES_MAX];
	int n;
};

static inline void
die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static inline uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline void
pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set); /* one CPU only: everything shares it */
}

/* Other work on the machine is kept out as far as we may; both sides alike. */
static inline void
be_important(void)
{
	(void)!setpriority(PRIO_PROCESS, 0, -20);
}

/* Memory that forked processes share. */
static inline void *
shared(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static inline int
compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static inline int
compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static inline double
median(const double *v, int n)
{
	double sorted[PASSES_MAX];

	memcpy(sorted, v, (size_t)n * sizeof *v);
	qsort(sorted, (size_t)n, sizeof *v, compare_double);
	return n == 0 ? 0 : n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* The value below which `share` of the samples lie; sorts them. */
static inline double
quantile(uint32_t *v, int n, double share)
{
	qsort(v, (size_t)n, sizeof *v, compare_u32);
	return n == 0 ? 0 : v[(int)((n - 1) * share)];
}

static inline void
add(struct series *s, double product, double base)
{
	if (s->n == PASSES_MAX)
		return;
	s->product[s->n] = product;
	s->base[s->n++] = base;
}

/* target, unit, figure, floor, ratio, lowest and highest ratio of a pass, what it is. */
static inline void
print_series(const char *target, const char *unit, const struct series *s, const char *what)
{
	double ratio[PASSES_MAX] = { 0 }, low = 1e300, high = 0;

	for (int i = 0; i < s->n; i++) {
		ratio[i] = s->product[i] / s->base[i];
		low = ratio[i] < low ? ratio[i] : low;
		high = ratio[i] > high ? ratio[i] : high;
	}
	printf("%s\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%s\n", target, unit,
	    median(s->product, s->n), median(s->base, s->n), median(ratio, s->n), low, high,
	    what);
	fflush(stdout);
}

static inline void
read_all(int fd, void *p, size_t n)
{
	ssize_t r;

	for (size_t at = 0; at < n; at += (size_t)r) {
		r = read(fd, (char *)p + at, n - at);
		if (r <= 0)
			_exit(0); /* the other side is gone: so are we */
	}
}

static inline void
write_all(int fd, const void *p, size_t n)
{
	ssize_t r;

	for (size_t at = 0; at < n; at += (size_t)r) {
		r = write(fd, (const char *)p + at, n - at);
		if (r <= 0)
			_exit(0);
	}
}

#endif /* TESTS_BENCH_H */
