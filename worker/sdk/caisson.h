/*
 * caisson: the runtime's half of a Caisson link, in C, on libc alone.
 *
 *	if (caisson_open(&c) < 0)
 *		return 1;
 *	while (caisson_next_turn(c, &turn) == 0) {
 *		...caisson_invoke(c, "files.read", arguments, &result)...
 *		caisson_complete(c, output);
 *	}
 *	caisson_close(c);
 *
 * A `struct caisson` owns the descriptor of the link, what has arrived on it, and the
 * turn that is open.  Calls block, and several may be in flight: start them, then wait
 * for each or for any.  One thread per link.  A write after the broker is gone raises
 * SIGPIPE, which ends the program unless it is ignored.
 *
 * Functions that return int return 0 or a negative errno:
 *   -EPIPE      the broker closed the link: end
 *   -EPROTO     what arrived is not of the protocol: end
 *   -ECANCELED  the turn is over; its outcome counts no more, the process ends soon
 *   -EPERM      the broker refused the request as a whole (caisson_emit and _annotate)
 *   -EMSGSIZE   what was to be sent is over its bound (docs/PROTOCOL.md), or is not one whole
 *               value; nothing was sent
 *   -EINVAL     no turn is open, or no such call, or an empty name; nothing was sent
 *   -EBADF      CAISSON_LINK_FD names no descriptor (caisson_open)
 *   -ENOMEM
 * A call that was denied or failed is a result, not an error.
 */
#ifndef CAISSON_H
#define CAISSON_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CAISSON_PROTOCOL  4	     /* the version of docs/PROTOCOL.md that is spoken */
#define CAISSON_FRAME_MAX (1u << 20) /* bytes after the length */

struct caisson;

/* ---- reading values ------------------------------------------------------------------ */

/* One value inside a frame, borrowed; n == 0 is no value, which every reader accepts. */
struct caisson_value {
	const uint8_t *p;
	size_t n;
};

enum caisson_type {
	CAISSON_NONE,
	CAISSON_NIL,
	CAISSON_BOOL,
	CAISSON_UINT, /* >= 0 */
	CAISSON_INT,  /* < 0 */
	CAISSON_REAL,
	CAISSON_STR, /* UTF-8 */
	CAISSON_BIN,
	CAISSON_ARRAY,
	CAISSON_MAP,
};

/* The first bytes of a value: what it is, and its number, truth, length or count. */
struct caisson_head {
	enum caisson_type type; /* CAISSON_NONE if no whole one is there */
	uint64_t n;		/* INT, REAL: the bits */
	size_t size;		/* bytes of the head */
};
struct caisson_head caisson_head(struct caisson_value v);
/* Takes one whole, well-formed value off the front of `rest`; false if none is there. */
bool caisson_take(struct caisson_value *rest, struct caisson_value *ret);
/* Is `v` one whole value, not too deep and of not too many values to be sent in a frame? */
bool caisson_fits(struct caisson_value v);

static inline enum caisson_type
caisson_type(struct caisson_value v)
{
	return caisson_head(v).type;
}

/* The number or truth that `v` is; 0 if it is none, or none that fits. */
static inline bool
caisson_bool(struct caisson_value v)
{
	return caisson_head(v).type == CAISSON_BOOL && caisson_head(v).n != 0;
}

static inline uint64_t
caisson_uint(struct caisson_value v)
{
	return caisson_head(v).type == CAISSON_UINT ? caisson_head(v).n : 0;
}

static inline int64_t
caisson_int(struct caisson_value v)
{
	struct caisson_head h = caisson_head(v);

	if (h.type == CAISSON_UINT && h.n > INT64_MAX)
		return 0;
	return h.type == CAISSON_INT || h.type == CAISSON_UINT ? (int64_t)h.n : 0;
}

static inline double
caisson_real(struct caisson_value v)
{
	struct caisson_head h = caisson_head(v);
	double d;

	memcpy(&d, &h.n, sizeof d);
	return h.type == CAISSON_REAL	? d
	       : h.type == CAISSON_UINT ? (double)h.n
					: (double)caisson_int(v);
}

/* The bytes of a string or binary, not terminated; NULL and 0 for anything else. */
static inline const char *
caisson_bytes(struct caisson_value v, size_t *ret_n)
{
	struct caisson_head h = caisson_head(v);
	bool is = h.type == CAISSON_STR || h.type == CAISSON_BIN;

	*ret_n = is ? h.n : 0;
	return is ? (const char *)v.p + h.size : NULL;
}

/* Is `v` this string? */
static inline bool
caisson_is(struct caisson_value v, const char *text)
{
	size_t n;
	const char *p = caisson_bytes(v, &n);

	return p != NULL && n == strlen(text) && memcmp(p, text, n) == 0;
}

/* Walks an array (elements) or map (key, value, ...). */
struct caisson_cursor {
	struct caisson_value rest;
	uint64_t left;
};

static inline struct caisson_cursor
caisson_iterate(struct caisson_value v)
{
	struct caisson_head h = caisson_head(v);

	if (h.type != CAISSON_NONE)
		v = (struct caisson_value){ v.p + h.size, v.n - h.size };
	return (struct caisson_cursor){ v, h.type == CAISSON_ARRAY ? h.n
					   : h.type == CAISSON_MAP ? 2 * h.n
								   : 0 };
}

/* Takes the next value; false at the end. */
static inline bool
caisson_next(struct caisson_cursor *it, struct caisson_value *ret)
{
	return it->left > 0 && it->left-- > 0 && caisson_take(&it->rest, ret);
}

/* The value of `key` in the map `v`; no value if it has none or is no map. */
static inline struct caisson_value
caisson_get(struct caisson_value v, const char *key)
{
	struct caisson_cursor it = caisson_iterate(v);
	struct caisson_value k, value;

	while (caisson_type(v) == CAISSON_MAP && caisson_next(&it, &k) &&
	       caisson_next(&it, &value))
		if (caisson_is(k, key))
			return value;
	return (struct caisson_value){ NULL, 0 };
}

/* ---- writing values ------------------------------------------------------------------ */

/*
 * Starts as zeroes.  Values are appended in order, each map and array followed by as
 * many as it announces.  An error sticks and is reported by what sends the value.
 */
struct caisson_writer {
	uint8_t *p;
	size_t n, cap;
	int error; /* 0 or -ENOMEM */
};

/* The shortest head of a type, or all of a scalar; raw bytes.  For those below. */
void caisson_put_head(struct caisson_writer *w, enum caisson_type type, uint64_t n);
void caisson_put_raw(struct caisson_writer *w, const void *p, size_t n);

#define caisson_put_nil(w)	caisson_put_head(w, CAISSON_NIL, 0)
#define caisson_put_bool(w, v)	caisson_put_head(w, CAISSON_BOOL, (bool)(v))
#define caisson_put_uint(w, v)	caisson_put_head(w, CAISSON_UINT, v)
#define caisson_put_array(w, n) caisson_put_head(w, CAISSON_ARRAY, n) /* n elements follow */
#define caisson_put_map(w, n)	caisson_put_head(w, CAISSON_MAP, n)   /* n times key, value */

static inline void
caisson_put_int(struct caisson_writer *w, int64_t v)
{
	caisson_put_head(w, v < 0 ? CAISSON_INT : CAISSON_UINT, (uint64_t)v);
}

/* Must be finite. */
static inline void
caisson_put_real(struct caisson_writer *w, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	caisson_put_head(w, CAISSON_REAL, bits);
}

/* Must be UTF-8. */
static inline void
caisson_put_str_n(struct caisson_writer *w, const char *p, size_t n)
{
	caisson_put_head(w, CAISSON_STR, n);
	caisson_put_raw(w, p, n);
}

static inline void
caisson_put_str(struct caisson_writer *w, const char *text)
{
	caisson_put_str_n(w, text, strlen(text));
}

static inline void
caisson_put_bin(struct caisson_writer *w, const void *p, size_t n)
{
	caisson_put_head(w, CAISSON_BIN, n);
	caisson_put_raw(w, p, n);
}

static inline void
caisson_put_value(struct caisson_writer *w, struct caisson_value v)
{
	caisson_put_raw(w, v.p, v.n);
}

/* Forgets what was written and releases it; the writer can be used again. */
static inline void
caisson_writer_finish(struct caisson_writer *w)
{
	free(w->p);
	*w = (struct caisson_writer){ NULL, 0, 0, 0 };
}

/* ---- the link ------------------------------------------------------------------------ */

/* Takes the descriptor that CAISSON_LINK_FD names and says hello, and in it that turns are
 * taken one after the other: until caisson_next_turn() says that there will be none. */
int caisson_open(struct caisson **ret);
/* Closes the link and releases everything; NULL is allowed. */
void caisson_close(struct caisson *c);

/* What is asked; borrowed until the outcome is sent. */
struct caisson_turn {
	struct caisson_value message; /* any value */
	struct caisson_value agent;   /* "agent:<id>" */
	struct caisson_value
	    tools; /* array of maps: name, description, namespace, effect, input */
	struct caisson_value context; /* map: actor, owner, purpose, traceId, now, reach ... */
	uint32_t max_steps, max_tool_calls;
	uint32_t timeout_ms; /* from the moment it was sent */
};

/* Waits for the next turn; -EPIPE when there will be none, which is the normal end. */
int caisson_next_turn(struct caisson *c, struct caisson_turn *ret);

/* What the broker has said of the turn, as a mask.  Looks at what has arrived, never waits. */
enum caisson_state {
	CAISSON_DRAINING = 1 << 0,  /* the time is nearly up: new calls are refused */
	CAISSON_CANCELLED = 1 << 1, /* the turn is over */
};
unsigned caisson_state(struct caisson *c);

enum caisson_status {
	CAISSON_SUCCEEDED,
	CAISSON_DENIED, /* not allowed, or refused as a whole: nothing happened */
	CAISSON_FAILED, /* allowed, and did not succeed */
};

struct caisson_result {
	uint32_t call;
	enum caisson_status status;
	struct caisson_value output;	    /* with SUCCEEDED */
	struct caisson_value code, message; /* strings, with the others */
	struct caisson_value details;	    /* any value, if there is one */
	bool retryable;
	void *frame; /* what the values point into */
};

enum caisson_request {
	CAISSON_HELLO,	/* caisson_open() says it */
	CAISSON_INVOKE, /* ask tool `name` for one effect; `value` holds a map of arguments */
	/* tell the host something: type `name`; arrives wrapped as runtime.event */
	CAISSON_EMIT,
	CAISSON_ANNOTATE, /* add `name` to the metadata of the turn's result */
	CAISSON_COMPLETE, /* end the turn, `name` is "complete", "fail" or "escalate", ... */
	CAISSON_FAIL,	  /* ... `value` its output, error or reason */
	CAISSON_ESCALATE,
};

/* What may go with it.  With a call `step`, a claim against the budget of steps and never a
 * permission, and `idempotencyKey`, 1..128 bytes: the same call under the same key is made
 * once, another call under it is refused.  With an outcome `metadata`, a map of at most 16
 * KiB. */
struct caisson_option {
	const char *name;
	struct caisson_value value;
};
/* Is it one of these, within its bounds? */
bool caisson_option_fits(const struct caisson_option *o);

/* Sends a request and does not wait; `*ret_call` names it, never 0. */
int caisson_start_with(struct caisson *c, enum caisson_request kind, const char *name,
    const struct caisson_writer *value, const struct caisson_option *options, size_t n,
    uint32_t *ret_call);

static inline int
caisson_start(struct caisson *c, enum caisson_request kind, const char *name,
    const struct caisson_writer *value, uint32_t *ret_call)
{
	return caisson_start_with(c, kind, name, value, NULL, 0, ret_call);
}

/* Would it be sent?  0, -EINVAL or -EMSGSIZE. */
int caisson_check(enum caisson_request kind, const char *name, struct caisson_value value);
/* Waits for `call`, or with 0 for whichever ends next; release with _result_finish(). */
int caisson_call_wait(struct caisson *c, uint32_t call, struct caisson_result *ret);

static inline void
caisson_result_finish(struct caisson_result *r)
{
	free(r->frame);
	r->frame = NULL;
}

static inline int
caisson_call_start(struct caisson *c, const char *tool, const struct caisson_writer *arguments,
    uint32_t *ret_call)
{
	return caisson_start(c, CAISSON_INVOKE, tool, arguments, ret_call);
}

/* Makes a call and waits for its result. */
static inline int
caisson_invoke(struct caisson *c, const char *tool, const struct caisson_writer *arguments,
    struct caisson_result *ret)
{
	uint32_t call;
	int error = caisson_start(c, CAISSON_INVOKE, tool, arguments, &call);

	return error < 0 ? error : caisson_call_wait(c, call, ret);
}

/* CAISSON_EMIT or CAISSON_ANNOTATE, and waits until the broker has taken it. */
int caisson_tell(struct caisson *c, enum caisson_request kind, const char *name,
    const struct caisson_writer *value);

static inline int
caisson_emit(struct caisson *c, const char *type, const struct caisson_writer *data)
{
	return caisson_tell(c, CAISSON_EMIT, type, data);
}

static inline int
caisson_annotate(struct caisson *c, const char *key, const struct caisson_writer *value)
{
	return caisson_tell(c, CAISSON_ANNOTATE, key, value);
}

/* These end the turn; after an error it is still open. */
static inline int
caisson_complete(struct caisson *c, const struct caisson_writer *output)
{
	uint32_t none;

	return caisson_start(c, CAISSON_COMPLETE, "complete", output, &none);
}

/* `code`: 1..64 bytes, `message`: up to 4096. */
int caisson_fail(struct caisson *c, const char *code, const char *message);
/* Asks a person; needs the tool sharedos.escalate.  `reason`: 1..4096 bytes. */
int caisson_escalate(struct caisson *c, const char *reason);

#endif /* CAISSON_H */
