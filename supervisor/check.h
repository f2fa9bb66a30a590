/*
 * check: what a broker has against a configuration that was read, and nothing else is started.
 *
 * Tools, their schemas and templates, grants and principals are judged by who will work with
 * them: a broker in its usual chamber, which is handed the configuration, says in one struct
 * whether it takes it, and ends.  No state, lock, link or key of an installation is needed.
 */
#ifndef SUPERVISOR_CHECK_H
#define SUPERVISOR_CHECK_H

#include "supervisor/config.h"

#define CHECK_ANSWER_MS 60000 /* as long as a broker may take to become ready */

/*
 * `c` is resolved; `file` stands in errors; the broker is killed if it has not answered
 * within `answer_ms`.  Returns 0: a broker takes it; -EINVAL: it does not, and has said why
 * on standard error; or another negative errno: none could be asked, or none has answered
 * (-ETIMEDOUT: in time), so that nothing is known.  `err` has a line for each failure.
 */
int check_with_broker(const struct conf_namespace *c, const char *file, unsigned answer_ms,
    char err[CONF_ERROR_MAX]);

#endif /* SUPERVISOR_CHECK_H */
