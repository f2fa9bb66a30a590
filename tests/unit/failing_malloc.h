/*
 * An allocator in front of libc's that refuses one allocation, to be included by one file of a
 * program.  Not for sanitizers, which have an allocator of their own.
 */
#ifndef TESTS_FAILING_MALLOC_H
#define TESTS_FAILING_MALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static bool armed;
static unsigned long asked, fails_at; /* allocations while armed; 0: none fails */
static long alive;

static bool
is_out(void)
{
	if (!armed || ++asked != fails_at)
		return false;
	errno = ENOMEM;
	return true;
}

static void *
count(void *p)
{
	alive += p != NULL;
	return p;
}

void *
malloc(size_t n)
{
	return is_out() ? NULL : count(__libc_malloc(n));
}

void *
calloc(size_t n, size_t size)
{
	return is_out() ? NULL : count(__libc_calloc(n, size));
}

void *
realloc(void *p, size_t n)
{
	if (is_out())
		return NULL;
	return p == NULL ? count(__libc_malloc(n)) : __libc_realloc(p, n);
}

void
free(void *p)
{
	alive -= p != NULL;
	__libc_free(p);
}

/* From now on the `n`-th allocation is refused; 0: none is. */
static void
malloc_arm(unsigned long n)
{
	asked = 0;
	fails_at = n;
	armed = true;
}

#endif /* TESTS_FAILING_MALLOC_H */
