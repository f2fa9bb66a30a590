/*
 * place: where a namespace is served: the name of its directory, and its local socket.  Pure.
 */
#ifndef SUPERVISOR_PLACE_H
#define SUPERVISOR_PLACE_H

#include "common/options.h"
#include "supervisor/config.h"

/*
 * Can the namespace of a configuration have a directory, and where is its socket: as the
 * command line says, else the file, else in the runtime directory?  Returns 0 and in `*ret` the
 * path, which is the caller's, or NULL where there is no runtime directory (XDG_RUNTIME_DIR is
 * not set); or a negative errno with one line in `err`.
 */
int place_find(const struct options *o, const struct conf_namespace *c, char **ret,
    char err[CONF_ERROR_MAX]);

#endif /* SUPERVISOR_PLACE_H */
