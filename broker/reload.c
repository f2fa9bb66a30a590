#include "broker/broker.h"

#include <errno.h>

#include "common/clock.h"

int
reload_start(struct broker *b)
{
	const char *id;

	b->grant_set = grant_set_create(b->config->revocation);
	b->standing = b->grant_set != NULL ? standing_create(b->grant_set) : NULL;
	if (b->standing == NULL)
		return -ENOMEM;
	return standing_replace(b->standing, b->config, 1, clock_wall_ms(), &id);
}

void
reload_finish(struct broker *b)
{
	grant_set_destroy(b->grant_set);
	standing_destroy(b->standing);
	config_release(b->config);
}
