/*
 * Make a forbidden call in a thread and go on in another.
 * systemd#11967: a filter that ends the thread alone leaves a half-dead process.
 */
#include "tests/escape/escape.h"

#include <pthread.h>

static void *
violate(void *ret)
{
	*(int *)ret = tried(unshare(CLONE_NEWUSER)) == EINVAL ? 0 : errno; /* it has threads */
	return NULL;
}

ESCAPE(thread_violates)
{
	pthread_t t;
	int ret = EPERM;

	if (pthread_create(&t, NULL, violate, &ret) != 0)
		return BROKEN;
	pthread_join(t, NULL);
	return ret;
}
