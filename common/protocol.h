/*
 * protocol: the messages of protocol.def and their MessagePack-RPC form.
 *
 * Decoding is zero-copy: strings and values are slices of the frame and live as long as
 * its bytes.  Decoding checks, in this order: walk (common/walk.h), RPC shape, known
 * method, direction, state of the link, known fields, types, ranges, required fields.
 * Any failure is a protocol fault; `struct fault` says which rule was broken.  This
 * module does no I/O, never logs and has no state.
 */
#ifndef COMMON_PROTOCOL_H
#define COMMON_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/limits.h"

#define PROTOCOL_VERSION 4 /* raised with every change of protocol.def */

/* The authority to run a turn at all (TU-13): its resource's namespace, and its action. */
#define EXECUTION_NAMESPACE "sharedos.execution"
#define EXECUTION_ACTION    "invoke"
/* Of the resources of the files provider that come without a file (--allow). */
#define WORKSPACE_NAMESPACE "workspace"

/* The tool by which a runtime asks a person (TU-58), and the authority to do so. */
#define ESCALATE_TOOL	   "sharedos.escalate"
#define ESCALATE_NAMESPACE "sharedos" /* of the tool, and of its resource */
#define ESCALATE_PATH	   "escalation"
#define ESCALATE_ACTION	   "request"

/* Who is at the other end of a link.  Masks, because a row may name several. */
enum role {
	ROLE_SUPERVISOR = 1 << 0,
	ROLE_BROKER = 1 << 1,
	ROLE_LEDGER = 1 << 2,
	ROLE_WORKER = 1 << 3,
	ROLE_PROVIDER = 1 << 4,
	ROLE_CLIENT = 1 << 5, /* on its own, or carried by the gateway */
	ROLE_GATEWAY = 1 << 6, /* of its configuration only: on links it is a client */
};

/* Where a link is in its life; rows say in which states they may arrive. */
enum link_state {
	LINK_NEW = 1 << 0, /* before hello */
	LINK_READY = 1 << 1, /* hello answered, nothing running */
	LINK_BUSY = 1 << 2, /* an operation (worker) or a call (provider) is open */
};

/* Borrowed bytes.  p may be NULL only if n is 0. */
struct slice {
	const uint8_t *p;
	size_t n;
};

struct wire_error {
	struct slice code; /* 1..64 bytes */
	struct slice message; /* 0..ERROR_MESSAGE_MAX bytes */
	bool retryable;
	struct slice details; /* one value, or n == 0 */
};

/* enum call_status { call_status_succeeded, ... }: the ENUMERATIONs of protocol.def. */
/* struct msg_tool_invoke, struct msg_tool_invoke_reply, ...: one per row, and
 * MSG_tool_invoke, ...: enum msg_type. */
#include "common/protocol_types.h"

enum msg_kind {
	MSG_REQUEST = 0,
	MSG_RESPONSE = 1,
	MSG_NOTIFY = 2
};

/* enum msg_type { MSG_hello, MSG_hello_reply, ... }: in protocol_types.h. */

/* What rule a frame broke, for the record and the log: never any of its content. */
struct fault {
	const char *rule; /* static text, e.g. "unknown method", "duplicate key" */
	const char *method; /* static text or NULL */
	const char *field; /* static text or NULL */
	size_t offset; /* byte of the frame */
};

/* The rule of a field over its bound: told apart from what is malformed (OP-15). */
extern const char fault_too_long[];

/* One decoded frame. */
struct message {
	enum msg_kind kind;
	enum msg_type type; /* for a response: the reply row of the request it answers */
	uint32_t msgid; /* requests and responses */
	bool failed; /* response: `error` is set, the union is not */
	struct wire_error error; /* of a failed response */
	union msg_any u;
};

/*
 * Asked for a response: which request does `msgid` answer?  Returns its type, or a
 * negative number if none is open; protocol_decode() then faults ("reply to nothing").
 */
typedef int protocol_pending_fn(void *arg, uint32_t msgid);

/*
 * Decodes one frame (without its length word) that `from` sent to `to` in `state`.
 * Returns 0 and fills `ret` (slices point into `p`); or -EPROTO and fills `fault`.
 * `pending` may be NULL where no response may arrive.
 */
int protocol_decode(const uint8_t *p, size_t n, enum role from, enum role to,
    enum link_state state, protocol_pending_fn *pending, void *arg, struct message *ret,
    struct fault *fault);

/* Grows on the heap; starts as zeroes; buf_finish() releases. */
struct buf {
	uint8_t *p;
	size_t n, cap;
	bool failed; /* an allocation or a bound failed: contents are void */
};

void buf_finish(struct buf *b);
/* Its contents, until it next changes. */
static inline struct slice
buf_slice(const struct buf *b)
{
	return (struct slice){ b->p, b->n };
}
/* Appends raw bytes; sets b->failed instead of returning an error. */
void buf_add(struct buf *b, const void *p, size_t n);
/* Makes the capacity at least n + `n`; false, with b->failed set, if memory is out. */
bool buf_grow(struct buf *b, size_t n);

/* Room for `n` bytes behind the contents; NULL if b->failed. */
static inline uint8_t *
buf_reserve(struct buf *b, size_t n)
{
	if (b->failed || (n > b->cap - b->n && !buf_grow(b, n)))
		return NULL;
	return b->p + b->n;
}

/* What was written into that room, up to `end`, belongs to the contents. */
static inline void
buf_end(struct buf *b, const uint8_t *end)
{
	b->n = (size_t)(end - b->p);
}

/* Appends `n` bytes for the caller to fill; NULL if b->failed. */
static inline uint8_t *
buf_room(struct buf *b, size_t n)
{
	uint8_t *p = buf_reserve(b, n);

	if (p != NULL)
		b->n += n;
	return p;
}

/*
 * Append one whole frame, length word included, to `out`.  `m` is the struct of `type`.
 * Return 0; -ERANGE if a field is outside its range, is not UTF-8 or not of its kind, or a
 * required one is missing, or the frame is over FRAME_MAX; -ENOMEM.  `out` is as before on
 * failure.  VALUE, MAP and LIST fields must have passed a walk; the depth and the number
 * of values of the whole frame are the caller's to bound when it wraps what a peer sent.
 */
int protocol_request(struct buf *out, enum msg_type type, uint32_t msgid, const void *m);
int protocol_notify(struct buf *out, enum msg_type type, const void *m);
int protocol_reply(struct buf *out, enum msg_type type, uint32_t msgid, const void *m);
/* A refusal of the request itself, in the error slot of the response. */
int protocol_refuse(
    struct buf *out, uint32_t msgid, const char *code, const char *message, bool retryable);

/* The bare map of a row, without frame and RPC envelope (records of the journal). */
int protocol_pack(struct buf *out, enum msg_type type, const void *m);

/* Fields that many maps of a row have in common.  Starts as zeroes; buf_finish(&f->packed). */
struct fields {
	struct buf packed;
	uint32_t n;
};

/* Appends the fields of `m` that are set, required or not. */
int protocol_pack_fields(struct fields *f, enum msg_type type, const void *m);
/* A map of the fields of `m` and those in common (NULL: none), of which none may be the
 * same. */
int protocol_pack_with(
    struct buf *out, enum msg_type type, const struct fields *common, const void *m);
int protocol_unpack(
    const uint8_t *p, size_t n, enum msg_type type, void *ret_m, struct fault *fault);

/* "tool.invoke"; "tool.invoke reply". */
const char *protocol_name(enum msg_type type);

/* bytes of any name of protocol.def: a field's, a method's, a value's */
#define FIELD_NAME_MAX 31

/* A field's name as it is packed. */
struct field_key {
	uint8_t head;
	char name[23]; /* zeroes behind it */
};

/* What a codec looks at stands first: a row of many fields is passed over for every frame. */
struct field_desc {
	const char *name;
	uint16_t offset, has_offset; /* of the field and its companion, in the row's struct */
	uint8_t name_n; /* bytes of the name */
	bool required;
	enum field_type {
		FIELD_STR,
		FIELD_BIN,
		FIELD_UINT,
		FIELD_BOOL,
		FIELD_ENUM,
		FIELD_VALUE,
		FIELD_MAP,
		FIELD_LIST,
		FIELD_ERROR,
	} type;
	uint64_t min, max; /* of the value, or of its length in bytes */
	struct field_key key;
	const char *const *names; /* FIELD_ENUM: NULL-terminated */
	const char *enumeration; /* FIELD_ENUM: its type's name */
	const char *doc;
};

struct msg_desc {
	enum msg_type type;
	enum msg_kind kind; /* MSG_RESPONSE for a reply row */
	const char *method; /* NULL for a reply row */
	const char *id; /* "tool_invoke", "tool_invoke_reply" */
	unsigned from, to; /* masks of enum role; a reply's are its request's, swapped */
	unsigned states; /* mask of enum link_state; for a reply every one */
	size_t size; /* of its struct */
	const char *doc;
	struct field_desc fields[]; /* a NULL name ends the list */
};

/* Every row in protocol.def's order; MSG_TYPE_MAX of them.  The reply to a request is the
 * row after it. */
const struct msg_desc *protocol_desc(enum msg_type type);
/* The request or notification of that method; NULL if there is none. */
const struct msg_desc *protocol_method(struct slice method);

/* The length word before a frame, or before an entry of a journal. */
static inline uint32_t
protocol_length(const uint8_t p[4])
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Slices and text. */
static inline bool
slice_is(struct slice s, const char *text)
{
	return strlen(text) == s.n && (s.n == 0 || memcmp(s.p, text, s.n) == 0);
}
static inline struct slice
slice_of(const char *text)
{
	return (struct slice){ (const uint8_t *)text, strlen(text) };
}
bool slice_equal(struct slice a, struct slice b);
/* A NUL-terminated copy the caller frees; NULL if memory is out or `s` holds a NUL. */
char *slice_dup(struct slice s);

#endif /* COMMON_PROTOCOL_H */
