#include "common/event_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"

static const char *const type_names[] = {
	[event_type_accepted] = "accepted",
	[event_type_output] = "output",
	[event_type_progress] = "progress",
	[event_type_completed] = "completed",
	[event_type_failed] = "failed",
	[event_type_gap] = "gap",
};

static void
add_text(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text));
}

void
event_json_write(const struct msg_operation_event *e, struct buf *out)
{
	const char *type = type_names[e->type];
	char head[96];

	snprintf(head, sizeof(head),
	    "{\"sequence\":%" PRIu64 ",\"type\":\"%s\",\"%s\":", e->sequence, type, type);
	add_text(out, head);
	if (e->type == event_type_output) {
		add_text(out, e->stream == stream_stdout ? "{\"stream\":\"stdout\",\"data\":"
							 : "{\"stream\":\"stderr\",\"data\":");
		json_write_base64(e->has_data ? e->data : (struct slice){ NULL, 0 }, out);
		add_text(out, "}");
	} else if (e->has_body) {
		json_write(e->body, out);
	} else {
		add_text(out, "{}");
	}
	add_text(out, "}");
}

void
event_json_write_line(const struct msg_operation_event *e, struct buf *out)
{
	event_json_write(e, out);
	add_text(out, "\n");
}
