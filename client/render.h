/*
 * render: what an event looks like, and which exit status it means.  Pure.
 *
 * Bodies are maps whose shape only the broker knows for certain: what is missing or of
 * another type is left out, never a reason to fail.
 */
#ifndef CLIENT_RENDER_H
#define CLIENT_RENDER_H

#include "common/protocol.h"

enum { EXIT_CANNOT = 125, EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

/*
 * A progress or gap event for people: one escaped line, or nothing.  `verbose` shows the
 * start of calls, ids and the runtime's own events, too.
 */
void render_progress(const struct msg_operation_event *e, bool verbose, struct buf *out);

/* The output of a turn as pretty JSON with its newline; nothing if it has none. */
void render_result(const struct msg_operation_event *e, struct buf *out);

/*
 * Why a terminal event is not a success, escaped and without newline: "denied:
 * no_matching_grant: ...", "seccomp (syscall ptrace): ...".  Nothing for a success, and
 * nothing for a command that ended by itself.
 */
void render_reason(const struct msg_operation_event *e, struct buf *out);

/*
 * Could it not be started?  Then `*ret_program`: because of the program itself, with the
 * errno of its execution (0: unknown); of everything else the supervisor says why.
 */
bool render_start_fault(const struct msg_operation_event *e, bool *ret_program, int *ret_error);

/* Exit status of `run` and of `exec` for a terminal event (endings.def, D-2). */
int render_exit_run(const struct msg_operation_event *e);
int render_exit_exec(const struct msg_operation_event *e);

#endif /* CLIENT_RENDER_H */
