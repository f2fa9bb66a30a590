/*
 * frames: what a client may send over the WebSocket, out of JSON, into requests to the broker;
 * and the frames that the gateway writes itself.  Events are common/event_json.h.  Pure.
 */
#ifndef GATEWAY_FRAMES_H
#define GATEWAY_FRAMES_H

#include "common/json_members.h"

enum frame_type {
	FRAME_SEND,
	FRAME_CANCEL,
	FRAME_HEARTBEAT,
	FRAME_RESUME,
};

/* One frame.  Slices point into its own buffers, which last until frame_finish(). */
struct frame {
	enum frame_type type;
	/* of FRAME_SEND; session and, without a traceparent, trace are for the caller to add */
	struct msg_operation_submit submit;
	bool has_operation;
	struct slice operation; /* of FRAME_CANCEL and FRAME_RESUME */
	bool has_after;
	uint64_t after; /* of FRAME_RESUME */
	struct buf value, bytes;
};

/*
 * Reads one frame, exactly as docs/API.md says; `bytes_max`: when packed.  Returns 0; -EINVAL
 * with `ret_fault` naming the member; -ENOMEM.  `ret` starts as zeroes and is to be finished
 * either way.
 */
int frame_read(
    struct slice text, size_t bytes_max, struct frame *ret, struct json_fault *ret_fault);
void frame_finish(struct frame *f);

/* {"type":"error","error":MESSAGE,"code":CODE} */
void frame_write_error(struct buf *out, struct slice code, struct slice message);
/* {"type":"cancel","operationID":OPERATION}: it is acknowledged (D-6). */
void frame_write_cancel(struct buf *out, struct slice operation);

#endif /* GATEWAY_FRAMES_H */
