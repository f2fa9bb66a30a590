/*
 * child_env: the environment of a worker or provider: an allow-list, from nothing.
 */
#ifndef SUPERVISOR_CHILD_ENV_H
#define SUPERVISOR_CHILD_ENV_H

#include "supervisor/config.h"

/*
 * PATH, HOME, LANG, what the operator said (NAME=VALUE, or NAME for the value of this
 * process; the last one counts), and with a link its descriptor's number, which nothing
 * overrides.  For child_env_destroy(); NULL if memory is out.
 */
char **child_env_create(const struct conf_words *said, bool has_link);
void child_env_destroy(char **env);

#endif /* SUPERVISOR_CHILD_ENV_H */
