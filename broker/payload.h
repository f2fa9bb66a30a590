/*
 * payload: what an operation in a session does if it is no turn: a command, or a change to a
 * file of the workspace (OP-10, OP-11).  Owns copies of what its submission said of it.
 */
#ifndef BROKER_PAYLOAD_H
#define BROKER_PAYLOAD_H

#include "common/protocol.h"

struct payload;
struct link;

/* What is wrong with the form of a submission, with or without `session`; NULL: nothing.  The
 * text is the caller's until the next call. */
const char *payload_fault(const struct msg_operation_submit *m);
/* What is wrong with a path that a client says; NULL: nothing.  Static text. */
const char *payload_path_fault(struct slice path);
/* Bytes of all that a submission brings, of a turn, too. */
size_t payload_bytes(const struct msg_operation_submit *m);
/* Of a submission without fault that is no turn.  NULL if memory is out. */
struct payload *payload_create(const struct msg_operation_submit *m);
/* NULL is allowed. */
void payload_destroy(struct payload *p);

/* Asks the command runtime on `l` to become the command; as link_request(). */
int payload_send_command(const struct payload *p, struct link *l);
/* The tool of the workspace's provider that does it, and appends its arguments: a map. */
const char *payload_pack_call(const struct payload *p, struct buf *b);

#endif /* BROKER_PAYLOAD_H */
