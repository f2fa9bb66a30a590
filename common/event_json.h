/*
 * event_json: one event of an operation as JSON: of `caisson run -o jsonl`, and of the
 * gateway's WebSocket, the same bytes.  Straight from the frame, without a tree.  Pure.
 */
#ifndef COMMON_EVENT_JSON_H
#define COMMON_EVENT_JSON_H

#include "common/protocol.h"

#define EVENT_JSON_TYPES (event_type_gap + 1u)

/* What an event's type is called, there and as the name of its body. */
const char *event_json_type(enum event_type type);
/* Appends one event, as it came, on one line without its end:
 * {"sequence":1,"type":"accepted","accepted":{...}}. */
void event_json_write(const struct msg_operation_event *e, struct buf *out);
/* The same with a newline behind it. */
void event_json_write_line(const struct msg_operation_event *e, struct buf *out);

#endif /* COMMON_EVENT_JSON_H */
