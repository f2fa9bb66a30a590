/*
 * Start more threads than it was given.
 * A thread is a process to the kernel, and not to every limit.
 */
#include "tests/escape/escape.h"

#include <pthread.h>

static void *
wait_for_the_end(void *arg)
{
	(void)arg;
	pause();
	return NULL;
}

ESCAPE(threads)
{
	pthread_attr_t a;
	pthread_t t;
	int ret = 0;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 1 << 15);
	for (int i = 0; i < 200 && ret == 0; i++)
		ret = pthread_create(&t, &a, wait_for_the_end, NULL);
	return ret;
}
