#include "worker/sdk/caisson_decision.h"

#define METADATA_MAX (16u << 10) /* bytes, packed */
#define DETAILS_MAX  (64u << 10) /* bytes, packed */

/* ---- writing decisions --------------------------------------------------------------- */

static void
put_type(struct caisson_writer *w, unsigned members, const char *type)
{
	caisson_put_map(w, 1 + members);
	caisson_put_str(w, "type");
	caisson_put_str(w, type);
}

static void
put_member(struct caisson_writer *w, const char *name, const struct caisson_writer *value)
{
	caisson_put_str(w, name);
	caisson_put_raw(w, value->p, value->n);
	if (w->error == 0)
		w->error = value->error;
}

int
caisson_decide_call(struct caisson_writer *w, const char *tool,
    const struct caisson_writer *arguments, const uint32_t *step)
{
	put_type(w, step != NULL ? 2 : 1, "tool_call");
	caisson_put_str(w, "call");
	caisson_put_map(w, 2);
	caisson_put_text(w, "tool", tool);
	put_member(w, "arguments", arguments);
	if (step != NULL) {
		caisson_put_str(w, "step");
		caisson_put_uint(w, *step);
	}
	return w->error;
}

int
caisson_decide_complete(struct caisson_writer *w, const struct caisson_writer *output)
{
	put_type(w, 1, "complete");
	put_member(w, "output", output);
	return w->error;
}

int
caisson_decide_fail(struct caisson_writer *w, const char *code, const char *message)
{
	put_type(w, 1, "fail");
	caisson_put_str(w, "error");
	caisson_put_map(w, 2);
	caisson_put_text(w, "code", code);
	caisson_put_text(w, "message", message);
	return w->error;
}

int
caisson_decide_escalate(struct caisson_writer *w, const char *reason)
{
	put_type(w, 1, "escalate");
	caisson_put_text(w, "reason", reason);
	return w->error;
}

/* ---- reading them -------------------------------------------------------------------- */

/* What a map may have, the first `needed` of it always. */
struct shape {
	unsigned needed;
	const char *names[4];
};

static const struct decision {
	const char *type;
	struct shape shape;
	enum caisson_request kind; /* of the outcome; CAISSON_INVOKE: it is a call */
	const char *status, *closed;
} decisions[] = {
	{ "tool_call", { 2, { "type", "call", "step" } }, CAISSON_INVOKE, NULL, NULL },
	{ "complete", { 2, { "type", "output", "metadata" } }, CAISSON_COMPLETE, "complete",
	    "succeeded" },
	{ "fail", { 2, { "type", "error", "metadata" } }, CAISSON_FAIL, "fail", "failed" },
	{ "escalate", { 2, { "type", "reason", "metadata" } }, CAISSON_ESCALATE, "escalate",
	    "escalated" },
};

static const struct shape call_shape = { 2, { "tool", "arguments", "idempotencyKey" } };
static const struct shape error_shape = { 2, { "code", "message", "retryable", "details" } };

/* The members of `map` in the order of `shape`; false unless it has what it must and no
 * other. */
static bool
read_members(struct caisson_value map, const struct shape *shape, struct caisson_value ret[4])
{
	struct caisson_cursor it = caisson_iterate(map);
	struct caisson_value key, value;
	unsigned i;

	memset(ret, 0, 4 * sizeof *ret);
	if (caisson_type(map) != CAISSON_MAP)
		return false;
	while (caisson_next(&it, &key) && caisson_next(&it, &value)) {
		for (i = 0; i < 4 && shape->names[i] != NULL; i++)
			if (caisson_is(key, shape->names[i]))
				break;
		if (i == 4 || shape->names[i] == NULL || ret[i].n > 0)
			return false;
		ret[i] = value;
	}
	for (i = 0; i < shape->needed; i++)
		if (ret[i].n == 0)
			return false;
	return true;
}

bool
caisson_is_text(struct caisson_value v, size_t least, size_t most)
{
	size_t n;
	const char *p = caisson_bytes(v, &n);

	return caisson_type(v) == CAISSON_STR && n >= least && n <= most &&
	       memchr(p, '\0', n) == NULL;
}

static bool
is_error(struct caisson_value v)
{
	struct caisson_value member[4];

	return read_members(v, &error_shape, member) && caisson_is_text(member[0], 1, 64) &&
	       caisson_is_text(member[1], 0, 4096) &&
	       (member[2].n == 0 || caisson_type(member[2]) == CAISSON_BOOL) &&
	       member[3].n <= DETAILS_MAX;
}

/* Reads a call at step `at`. */
static bool
read_call(
    struct caisson_value call, struct caisson_value step, uint32_t at, struct caisson_plan *ret)
{
	struct caisson_value member[4];

	if (!read_members(call, &call_shape, member) || !caisson_is_text(member[0], 1, 256) ||
	    caisson_check(CAISSON_INVOKE, "t", member[1]) < 0)
		return false;
	if (member[2].n > 0 && !caisson_is_text(member[2], 1, 128))
		return false;
	if (step.n > 0 && (caisson_type(step) != CAISSON_UINT ||
			      caisson_uint(step) > UINT32_MAX || caisson_uint(step) < at))
		return false;
	ret->tool = member[0];
	ret->arguments = member[1];
	ret->key = member[2];
	ret->step = step.n > 0 ? (uint32_t)caisson_uint(step) : at;
	return true;
}

bool
caisson_decision_read(struct caisson_value v, uint32_t at, struct caisson_plan *ret)
{
	const struct decision *d = decisions, *end = d + sizeof decisions / sizeof *d;
	struct caisson_value rest = v, whole, member[4];

	if (!caisson_take(&rest, &whole) || rest.n > 0)
		return false;
	while (d < end && !caisson_is(caisson_get(v, "type"), d->type))
		d++;
	if (d == end || !read_members(v, &d->shape, member))
		return false;
	*ret =
	    (struct caisson_plan){ .kind = d->kind, .status = d->status, .closed = d->closed };
	if (d->kind == CAISSON_INVOKE)
		return read_call(member[1], member[2], at, ret);
	ret->value = member[1];
	ret->metadata = member[2];
	return caisson_check(d->kind, d->status, ret->value) == 0 &&
	       (d->kind != CAISSON_FAIL || is_error(ret->value)) &&
	       (d->kind != CAISSON_ESCALATE || caisson_is_text(ret->value, 1, 4096)) &&
	       (ret->metadata.n == 0 ||
		   (caisson_type(ret->metadata) == CAISSON_MAP && caisson_fits(ret->metadata) &&
		       ret->metadata.n <= METADATA_MAX));
}
