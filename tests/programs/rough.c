/*
 * rough: what a C library does when things go wrong, or are set up otherwise.
 *
 *   rough abort | smash | fortify | free    ends as the library ends it
 *   rough memory        allocates until there is nothing, then goes on
 *   rough arenas        many threads allocate and free at once
 *   rough time          the calls that the vDSO usually spares
 *   rough fault         a handler of SIGSEGV on a stack of its own, and back
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "common/util.h"

#define THREADS 16
#define BLOCKS	64

static void
abort_now(void)
{
	abort();
}

/* A frame whose canary is overwritten: volatile, so that no compiler sees that it is. */
__attribute__((noinline, optimize("stack-protector-all"))) static void
smash(void)
{
	char small[16];
	volatile size_t n = 64;

	for (size_t i = 0; i < n; i++)
		((volatile char *)small)[i] = 'x';
}

static void
fortify(void)
{
	char small[8];
	volatile size_t n = 16;

	__builtin___memcpy_chk(small, "0123456789abcdef", n, sizeof(small));
	puts(small);
}

static void
free_twice(void)
{
	void *volatile p = malloc(64);

	free(p);
	free(p);
}

static void
memory(void)
{
	size_t blocks = 0;
	void **first = NULL, **block;

	while ((block = malloc(1 << 20)) != NULL) {
		memset(block, 1, 1 << 20);
		*block = first;
		first = (void **)block;
		blocks++;
	}
	for (; first != NULL; first = block) {
		block = *first;
		free(first);
	}
	puts(blocks > 0 && malloc(1 << 20) != NULL ? "done" : "nothing");
}

static void *
allocate(void *arg)
{
	void *block[BLOCKS] = { NULL };
	uint32_t dice = (uint32_t)(uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		dice = dice * 1664525 + 1013904223;
		free(block[dice >> 16 & (BLOCKS - 1)]);
		block[dice >> 16 & (BLOCKS - 1)] = malloc(dice >> 24 << (dice >> 8 & 7));
	}
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
	return arg;
}

static void
arenas(void)
{
	pthread_t t[THREADS];
	uintptr_t sum = 0;
	void *ret;

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, allocate, (void *)(i + 1)) != 0)
			abort();
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &ret);
		sum += (uintptr_t)ret;
	}
	puts(sum == THREADS * (THREADS + 1) / 2 ? "done" : "wrong");
}

static void
times(void)
{
	struct timespec ts = { 0 }, none = { 0 };
	struct timeval tv;
	time_t now;
	int failed = 0;

	failed |= syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts) < 0;
	failed |= syscall(SYS_clock_getres, CLOCK_BOOTTIME, &ts) < 0;
	failed |= syscall(SYS_gettimeofday, &tv, NULL) < 0;
	failed |= syscall(SYS_time, &now) < 0;
	failed |= syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &none, NULL) < 0;
	failed |= syscall(SYS_nanosleep, &none, NULL) < 0;
	failed |= syscall(SYS_getcpu, NULL, NULL, NULL) < 0;
	puts(failed ? "wrong" : "done");
}

static sigjmp_buf back;

static void
on_fault(int signo)
{
	siglongjmp(back, signo);
}

static void
fault(void)
{
	static char stack[1 << 16];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	volatile int *volatile nowhere = NULL;

	if (sigaltstack(&ss, NULL) < 0 || sigaction(SIGSEGV, &sa, NULL) < 0)
		abort();
	if (sigsetjmp(back, 1) == 0)
		*nowhere = 1;
	puts("done");
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = { { "abort", abort_now }, { "smash", smash }, { "fortify", fortify },
		{ "free", free_twice }, { "memory", memory }, { "arenas", arenas },
		{ "time", times }, { "fault", fault } };

	for (size_t i = 0; argc == 2 && i < countof(all); i++)
		if (strcmp(argv[1], all[i].name) == 0) {
			all[i].run();
			return 0;
		}
	return 2;
}
