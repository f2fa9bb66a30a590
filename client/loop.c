#include "client/loop.h"

#include <stddef.h>

#include <event2/event.h>

/* Standard streams may be regular files, which epoll refuses to watch; poll takes all. */
struct event_base *
loop_create(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config != NULL && event_config_require_features(config, EV_FEATURE_FDS) == 0)
		base = event_base_new_with_config(config);
	if (config != NULL)
		event_config_free(config);
	return base;
}
