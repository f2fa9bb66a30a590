#include "gateway/frames.h"

#include <errno.h>
#include <stdio.h>

#include "common/request_key.h"
#include "common/util.h"
#include "common/walk.h"
#include "gateway/fields.h"

#define ID_MAX	       64 /* bytes of an operation's id */
#define PATH_MAX_CHARS 4096

/* ---- tables ---------------------------------------------------------------------------- */

#define SUBMIT(name, kind, required, min, max, field)                                          \
	JSON_MEMBER(name, kind, required, min, max, struct msg_operation_submit, field)
#define TIMEOUT		  SUBMIT("timeoutMs", NUMBER, false, 1, UINT32_MAX, timeoutMs)
#define PATH(name, field) SUBMIT(name, TEXT, true, 1, PATH_MAX_CHARS, field)
#define RECURSIVE	  SUBMIT("recursive", FLAG, false, 0, 0, recursive)
#define TABLE_END	  { .name = NULL }

static const struct json_member command_members[] = {
	SUBMIT("argv", TEXTS, false, 1, ARGUMENTS_MAX, argv),
	SUBMIT("shell", TEXT, false, 1, 65536, shell),
	SUBMIT("directory", TEXT, false, 1, PATH_MAX_CHARS, directory),
	SUBMIT("env", TEXT_MAP, false, 0, ARGUMENTS_MAX, env),
	SUBMIT("stdin", BYTES, false, 0, RESULT_MAX, content),
	TIMEOUT,
	TABLE_END,
};
static const struct json_member turn_members[] = {
	SUBMIT("message", ANY, true, 0, ARGUMENTS_MAX, message),
	SUBMIT("maxSteps", NUMBER, false, 0, UINT32_MAX, maxSteps),
	SUBMIT("maxToolCalls", NUMBER, false, 0, UINT32_MAX, maxToolCalls),
	SUBMIT("tools", TEXTS, false, 0, ARGUMENTS_MAX, tools),
	SUBMIT("namespaces", TEXTS, false, 0, ARGUMENTS_MAX, namespaces),
	SUBMIT("purpose", TEXT, false, 1, 512, purpose),
	SUBMIT("state", ANY, false, 0, ARGUMENTS_MAX, state),
	SUBMIT("metadata", OBJECT, false, 0, METADATA_MAX, metadata),
	TIMEOUT,
	TABLE_END,
};
static const struct json_member write_members[] = {
	PATH("path", path),
	SUBMIT("data", BYTES, true, 0, RESULT_MAX, content),
	SUBMIT("append", FLAG, false, 0, 0, append),
	TABLE_END,
};
static const struct json_member directory_members[] = { PATH("path", path), RECURSIVE,
	TABLE_END };
static const struct json_member delete_members[] = { PATH("path", path), RECURSIVE, TABLE_END };
static const struct json_member rename_members[] = { PATH("from", path), PATH("to", to),
	TABLE_END };

/* What an operation is: of these exactly one (OP-10). */
struct payloads {
	bool has_payload[operation_kind_renameFile + 1];
	struct slice payload[operation_kind_renameFile + 1];
};
#define PAYLOAD(kind) \
	{ #kind, JSON_KIND_FRAME, false, 0, 0, \
		offsetof(struct payloads, payload[operation_kind_##kind]), \
		offsetof(struct payloads, has_payload[operation_kind_##kind]) }
static const struct json_member payload_members[] = { PAYLOAD(turn), PAYLOAD(command),
	PAYLOAD(writeFile), PAYLOAD(createDirectory), PAYLOAD(deleteFile), PAYLOAD(renameFile),
	TABLE_END };
static const struct {
	const char *where;
	const struct json_member *members;
} payload_tables[] = {
	[operation_kind_turn] = { "operation.turn.", turn_members },
	[operation_kind_command] = { "operation.command.", command_members },
	[operation_kind_writeFile] = { "operation.writeFile.", write_members },
	[operation_kind_createDirectory] = { "operation.createDirectory.", directory_members },
	[operation_kind_deleteFile] = { "operation.deleteFile.", delete_members },
	[operation_kind_renameFile] = { "operation.renameFile.", rename_members },
};

struct send {
	bool has_type, has_idempotencyKey, has_traceparent, has_operation;
	struct slice type, idempotencyKey, traceparent, operation;
};
#define SEND(name, kind, required, min, max)                                                   \
	JSON_MEMBER(#name, kind, required, min, max, struct send, name)
static const struct json_member send_members[] = {
	SEND(type, TEXT, true, 1, 16),
	SEND(idempotencyKey, TEXT, false, 1, REQUEST_KEY_MAX),
	SEND(traceparent, TEXT, false, 1, 256),
	SEND(operation, FRAME, true, 0, 0),
	TABLE_END,
};

struct other {
	bool has_type, has_operationID, has_after;
	struct slice type, operationID;
	uint64_t after;
};
#define OTHER(name, kind, required, min, max)                                                  \
	JSON_MEMBER(#name, kind, required, min, max, struct other, name)
static const struct json_member cancel_members[] = {
	OTHER(type, TEXT, true, 1, 16),
	OTHER(operationID, TEXT, true, 1, ID_MAX),
	TABLE_END,
};
static const struct json_member heartbeat_members[] = {
	OTHER(type, TEXT, true, 1, 16),
	TABLE_END,
};
static const struct json_member resume_members[] = {
	OTHER(type, TEXT, true, 1, 16),
	OTHER(operationID, TEXT, true, 1, ID_MAX),
	OTHER(after, NUMBER, true, 0, UINT64_MAX),
	TABLE_END,
};

static const struct {
	const char *name;
	const struct json_member *members; /* NULL: send */
} frame_tables[] = {
	[FRAME_SEND] = { "send", NULL },
	[FRAME_CANCEL] = { "cancel", cancel_members },
	[FRAME_HEARTBEAT] = { "heartbeat", heartbeat_members },
	[FRAME_RESUME] = { "resume", resume_members },
};

/* ---- reading ---------------------------------------------------------------------------- */

static int
fail(struct json_fault *fault, const char *text)
{
	snprintf(fault->text, sizeof(fault->text), "%s", text);
	return -EINVAL;
}

static int
read_operation(struct frame *f, struct slice operation, struct json_fault *fault)
{
	struct payloads p = { .has_payload = { false } };
	unsigned kind, n = 0, chosen = 0;
	int r = json_members_read(operation, "operation.", payload_members, &p, NULL, fault);

	if (r < 0)
		return r;
	for (kind = 0; kind < countof(p.payload); kind++) {
		n += p.has_payload[kind];
		chosen = p.has_payload[kind] ? kind : chosen;
	}
	if (n != 1)
		return fail(fault, "operation: exactly one of turn, command, writeFile, "
				   "createDirectory, deleteFile, renameFile is expected");
	f->submit.kind = (enum operation_kind)chosen;
	r = json_members_read(p.payload[chosen], payload_tables[chosen].where,
	    payload_tables[chosen].members, &f->submit, &f->bytes, fault);
	if (r == 0 && chosen == operation_kind_command &&
	    f->submit.has_argv == f->submit.has_shell)
		return fail(
		    fault, "operation.command: exactly one of argv and shell is expected");
	return r;
}

static int
read_send(struct frame *f, struct json_fault *fault)
{
	struct send s = { .has_type = false };
	int r = json_members_read(buf_slice(&f->value), "", send_members, &s, NULL, fault);

	if (r < 0)
		return r;
	if (s.has_idempotencyKey && !request_key_is_valid(s.idempotencyKey))
		return fail(fault, "idempotencyKey: is not " REQUEST_KEY_RULE);
	if (s.has_traceparent && !fields_traceparent(s.traceparent, &f->submit.trace))
		return fail(fault, "traceparent: is not of the W3C's form");
	f->submit.has_trace = s.has_traceparent;
	f->submit.has_idempotencyKey = s.has_idempotencyKey;
	f->submit.idempotencyKey = s.idempotencyKey;
	return read_operation(f, s.operation, fault);
}

static int
read_other(struct frame *f, const struct json_member *members, struct json_fault *fault)
{
	struct other o = { .has_type = false };
	int r = json_members_read(buf_slice(&f->value), "", members, &o, NULL, fault);

	f->has_operation = o.has_operationID;
	f->operation = o.operationID;
	f->has_after = o.has_after;
	f->after = o.after;
	return r;
}

int
frame_read(struct slice text, size_t bytes_max, struct frame *ret, struct json_fault *ret_fault)
{
	const struct json_bounds bounds = { bytes_max, VALUE_DEPTH_MAX, VALUE_NODES_MAX };
	struct value type;
	int r = json_read_bounded(text, &bounds, &ret->value, ret_fault->text);

	if (r < 0)
		return r;
	if (!value_get(buf_slice(&ret->value), "type", &type) || type.type != VALUE_STR)
		return fail(ret_fault, "an object with a type is expected");
	for (size_t i = 0; i < countof(frame_tables); i++) {
		if (!slice_is(type.bytes, frame_tables[i].name))
			continue;
		ret->type = (enum frame_type)i;
		return frame_tables[i].members == NULL
			   ? read_send(ret, ret_fault)
			   : read_other(ret, frame_tables[i].members, ret_fault);
	}
	return fail(ret_fault, "type: is none of send, cancel, heartbeat, resume");
}

void
frame_finish(struct frame *f)
{
	buf_finish(&f->value);
	buf_finish(&f->bytes);
}

/* ---- writing ----------------------------------------------------------------------------- */

static void
add_text(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text));
}

void
frame_write_error(struct buf *out, struct slice code, struct slice message)
{
	add_text(out, "{\"type\":\"error\",\"error\":");
	json_write_string(message, out);
	add_text(out, ",\"code\":");
	json_write_string(code, out);
	add_text(out, "}");
}

void
frame_write_cancel(struct buf *out, struct slice operation)
{
	add_text(out, "{\"type\":\"cancel\",\"operationID\":");
	json_write_string(operation, out);
	add_text(out, "}");
}
