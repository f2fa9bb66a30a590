/*
 * audit_render: what records and verdicts look like.  Pure.
 *
 * People get one aligned line a record, times in UTC, everything untrusted escaped; programs
 * get one JSON object a line, the record's members beside "run".
 */
#ifndef CLIENT_AUDIT_RENDER_H
#define CLIENT_AUDIT_RENDER_H

#include "common/protocol.h"

/* The line above the records of one directory. */
void audit_render_name(struct slice name, bool colour, struct buf *out);
/* A list of audit.read's.  Returns how many there were. */
uint32_t audit_render_records(
    struct slice list, struct slice name, bool jsonl, bool colour, struct buf *out);
void audit_render_verdict(const struct msg_audit_verify_reply *v, struct slice name, bool jsonl,
    bool colour, struct buf *out);

#endif /* CLIENT_AUDIT_RENDER_H */
