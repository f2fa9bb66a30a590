/*
 * command: one command.run request, from its bytes to the program that this process becomes.
 *
 * Whoever wrote the request reached the broker as a client; the broker has checked it, and
 * this is the side that would suffer, so it is checked again.  Nothing here knows the link.
 */
#ifndef WORKER_COMMAND_COMMAND_H
#define WORKER_COMMAND_COMMAND_H

#include "worker/sdk/caisson.h"

/* Why a command could not be begun, for its client. */
struct command_fault {
	const char *code; /* not_found, permission_denied, invalid_argument, unavailable */
	char message[512]; /* UTF-8 */
	int status; /* that this process ends with: 127 or 126, as a shell's */
};

struct command {
	char **argv;
	const char *directory; /* NULL: where we are */
	char **env; /* name, value, name, value, ...; NULL ends it */
	const char *stdin_bytes;
	size_t stdin_n;
	bool has_stdin;
};

/*
 * Reads the map `params`.  What `ret` holds is copied but for the bytes of standard input, and
 * belongs to the process, which ends or becomes the command.  Returns 0; or -1 and fills
 * `fault`: an unknown member, a wrong type, not exactly one of argv and shell (OP-11), a
 * directory that is absolute or has a .. in it, a NUL in a string.
 */
int command_read(struct caisson_value params, struct command *ret, struct command_fault *fault);

/*
 * Becomes the command: directory, environment, standard input, signals, exec.  Returns only if
 * it cannot, and fills `fault`.
 */
void command_enter(const struct command *c, struct command_fault *fault);

#endif /* WORKER_COMMAND_COMMAND_H */
