/*
 * setup: the configuration of a private run, from its command line (D-17), and of a daemon.
 *
 * Without a file: one runtime named after the command, the files provider over --root, the
 * grants of --allow.  With one: the file's, and the runtime that was chosen.  Either way the
 * implicit grant to invoke that runtime, for this run.  Never logs.
 */
#ifndef SUPERVISOR_SETUP_H
#define SUPERVISOR_SETUP_H

#include "common/options.h"
#include "supervisor/config.h"

struct setup {
	struct conf_namespace config; /* of a private run: one runtime, index 0 */
	const char *file; /* where it comes from, borrowed; NULL: a command line */
	enum operation_kind kind;
	uint64_t timeout_ms; /* 0: none */
};

/*
 * Fills `ret`, which can be finished either way.  `command` is COMMAND_run, COMMAND_exec or
 * COMMAND_learn, `o` what options_parse() made of its line.  Returns 0; or a negative errno
 * with one line in `err` that names the option, or the file and its line.
 */
int setup_private(
    enum command command, const struct options *o, struct setup *ret, char err[CONF_ERROR_MAX]);

/*
 * The same for a daemon: all of the file's runtimes, and for each the implicit grant to invoke
 * it, as only the operator can ask for a turn (D-18).  `o` has a config.
 */
int setup_daemon(const struct options *o, struct setup *ret, char err[CONF_ERROR_MAX]);
void setup_finish(struct setup *s);

#endif /* SUPERVISOR_SETUP_H */
