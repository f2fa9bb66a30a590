#include "common/event_json.h"

#include "common/json.h"

/* Its name, and what stands between the number and the body. */
#define HEAD_TEXT(type) ",\"type\":\"" #type "\",\"" #type "\":"
#define HEAD(type)	{ #type, HEAD_TEXT(type), sizeof(HEAD_TEXT(type)) - 1 }
static const struct {
	const char *type, *text;
	size_t n;
} heads[] = {
	[event_type_accepted] = HEAD(accepted),
	[event_type_output] = HEAD(output),
	[event_type_progress] = HEAD(progress),
	[event_type_completed] = HEAD(completed),
	[event_type_failed] = HEAD(failed),
	[event_type_gap] = HEAD(gap),
};

#define ADD(out, text) buf_add(out, text, sizeof(text) - 1)

const char *
event_json_type(enum event_type type)
{
	return heads[type].type;
}

void
event_json_write(const struct msg_operation_event *e, struct buf *out)
{
	ADD(out, "{\"sequence\":");
	json_write_number(e->sequence, out);
	buf_add(out, heads[e->type].text, heads[e->type].n);
	if (e->type == event_type_output) {
		if (e->stream == stream_stdout)
			ADD(out, "{\"stream\":\"stdout\",\"data\":");
		else
			ADD(out, "{\"stream\":\"stderr\",\"data\":");
		json_write_base64(e->has_data ? e->data : (struct slice){ NULL, 0 }, out);
		ADD(out, "}}");
	} else if (e->has_body) {
		json_write(e->body, out);
		ADD(out, "}");
	} else {
		ADD(out, "{}}");
	}
}

void
event_json_write_line(const struct msg_operation_event *e, struct buf *out)
{
	event_json_write(e, out);
	ADD(out, "\n");
}
