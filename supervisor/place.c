#include "supervisor/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/runtime_dir.h"
#include "supervisor/config_private.h"
#include "supervisor/state.h"

int
place_find(const struct options *o, const struct conf_namespace *c, char **ret,
    char err[CONF_ERROR_MAX])
{
	char *path;

	if (!rundir_may_name(c->namespace))
		return conf_refuse(err, o->config, c->at_namespace,
		    "namespace: is a daemon's directory and socket, expected up to %d letters, "
		    "digits, - _ and .",
		    STATE_NAMESPACE_MAX);
	path = o->has_socket ? strdup(o->socket)
	       : c->socket   ? strdup(c->socket)
			     : runtime_socket_default(c->namespace);
	if (!path && errno != ENOENT) {
		snprintf(err, CONF_ERROR_MAX, "out of memory");
		return -ENOMEM;
	}
	*ret = path;
	return 0;
}
