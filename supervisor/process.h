/*
 * process: what is known of the namespace's processes, as rows process.row for its broker.
 *
 * What the supervisor gave each of them, and what the kernel counts: numbers of /proc only.
 * Names and command lines, which a process chooses itself, are never read.  What /proc does
 * not tell (it may be mounted so, or the process may be gone) is left out.
 */
#ifndef SUPERVISOR_PROCESS_H
#define SUPERVISOR_PROCESS_H

#include "common/control.h"
#include "common/protocol.h"

struct launch;
struct profile;

/* Everything is borrowed. */
struct process {
	enum process_role role;
	enum process_state state;
	bool has_session;
	uint64_t session;
	const char *id;		     /* of its runtime or provider; NULL: neither */
	const struct launch *launch; /* NULL: not launched yet */
	uid_t uid;
	bool uid_comes; /* with an order: it has none of its own yet */
	const struct profile *profile; /* NULL: not launched yet; it is left out */
	const char *const *handed;     /* kinds of its descriptors from 0 on, NULL-terminated */
	uint64_t since_ms;	       /* wall clock */
};

/* `handed` of a child: static. */
const char *const *process_handed(enum child_kind kind, bool with_input);

/*
 * Appends a row for each, measured now, with one pass over /proc.  Returns how many; -ENOMEM;
 * or -ERANGE if something does not fit its row (a bug of ours).
 */
int process_pack(struct buf *out, const struct process *v, size_t n);

#endif /* SUPERVISOR_PROCESS_H */
