#include "worker/sdk/caisson_provider_frame.h"

#define RESULT_MAX (768u << 10) /* bytes of an output */

/* A member of the map, if it is there and of its type. */
static bool
take_member(struct caisson_value map, const char *name, enum caisson_type type,
    struct caisson_value *ret)
{
	*ret = caisson_get(map, name);
	return ret->n > 0 && caisson_type(*ret) == type;
}

static int
parse_call(struct caisson_value map, struct caisson_provider_frame *ret)
{
	struct caisson_provider_call *c = &ret->call;
	struct caisson_value timeout;

	/* As many as there are, and each of them: none is there twice, and no other. */
	if (caisson_head(map).n != 7 || !take_member(map, "call", CAISSON_STR, &ret->id) ||
	    !take_member(map, "tool", CAISSON_STR, &c->tool) ||
	    !take_member(map, "arguments", CAISSON_MAP, &c->arguments) ||
	    !take_member(map, "action", CAISSON_STR, &c->action) ||
	    !take_member(map, "namespace", CAISSON_STR, &c->namespace) ||
	    !take_member(map, "path", CAISSON_ARRAY, &c->path) ||
	    !take_member(map, "timeoutMs", CAISSON_UINT, &timeout))
		return -EPROTO;
	c->timeout_ms = (uint32_t)caisson_uint(timeout);
	ret->said = CAISSON_PROVIDER_CALL;
	return 0;
}

static int
parse_fields(uint64_t kind, struct caisson_value method, struct caisson_value fields,
    struct caisson_provider_frame *ret)
{
	struct caisson_cursor it = caisson_iterate(fields);
	struct caisson_value map;

	if (caisson_type(fields) != CAISSON_ARRAY || !caisson_next(&it, &map) || it.left > 0 ||
	    caisson_type(map) != CAISSON_MAP)
		return -EPROTO;
	if (kind == 0 && caisson_is(method, "tool.call"))
		return parse_call(map, ret);
	if (kind != 2 || !caisson_is(method, "tool.cancel") || caisson_head(map).n != 1 ||
	    !take_member(map, "call", CAISSON_STR, &ret->id))
		return -EPROTO;
	ret->said = CAISSON_PROVIDER_CANCEL;
	return 0;
}

int
caisson_provider_parse(struct caisson_value bytes, struct caisson_provider_frame *ret)
{
	struct caisson_value all, kind, msgid = { NULL, 0 }, what, body;
	struct caisson_cursor it = caisson_iterate(bytes);

	memset(ret, 0, sizeof *ret);
	if (!caisson_take(&bytes, &all) || bytes.n > 0 || caisson_type(all) != CAISSON_ARRAY ||
	    !caisson_next(&it, &kind) || caisson_type(kind) != CAISSON_UINT ||
	    (caisson_uint(kind) < 2 && !caisson_next(&it, &msgid)) ||
	    (msgid.n > 0 && caisson_type(msgid) != CAISSON_UINT) ||
	    !caisson_next(&it, &what) || !caisson_next(&it, &body) || it.left > 0)
		return -EPROTO;
	ret->msgid = (uint32_t)caisson_uint(msgid);
	if (caisson_uint(kind) != 1)
		return parse_fields(caisson_uint(kind), what, body, ret);
	if (ret->msgid != 1 || caisson_type(what) != CAISSON_NIL ||
	    caisson_uint(caisson_get(body, "protocol")) != CAISSON_PROTOCOL)
		return -EPROTO;
	ret->said = CAISSON_PROVIDER_HELLO;
	return 0;
}

static void
put_frame(struct caisson_writer *w, unsigned kind, uint32_t msgid)
{
	caisson_put_raw(w, "\0\0\0", 4);
	caisson_put_array(w, 4);
	caisson_put_uint(w, kind);
	caisson_put_uint(w, msgid);
}

void
caisson_provider_put_hello(struct caisson_writer *w, const char *name)
{
	put_frame(w, 0, 1);
	caisson_put_str(w, "hello");
	caisson_put_array(w, 1);
	caisson_put_map(w, 2);
	caisson_put_str(w, "protocol");
	caisson_put_uint(w, CAISSON_PROTOCOL);
	caisson_put_str(w, "name");
	caisson_put_str(w, name);
}

static void
put_result(
    struct caisson_writer *w, uint32_t msgid, struct caisson_value id, const char *status)
{
	put_frame(w, 1, msgid);
	caisson_put_nil(w);
	caisson_put_map(w, 3);
	caisson_put_str(w, "callId");
	caisson_put_value(w, id);
	caisson_put_str(w, "status");
	caisson_put_str(w, status);
}

void
caisson_provider_put_output(struct caisson_writer *w, uint32_t msgid, struct caisson_value id,
    struct caisson_value output)
{
	put_result(w, msgid, id, "succeeded");
	caisson_put_str(w, "output");
	caisson_put_value(w, output);
}

void
caisson_provider_put_error(struct caisson_writer *w, uint32_t msgid, struct caisson_value id,
    const char *code, const char *message, bool retryable)
{
	put_result(w, msgid, id, "failed");
	caisson_put_str(w, "error");
	caisson_put_map(w, 3);
	caisson_put_str(w, "code");
	caisson_put_str(w, code);
	caisson_put_str(w, "message");
	caisson_put_str(w, message);
	caisson_put_str(w, "retryable");
	caisson_put_bool(w, retryable);
}

bool
caisson_provider_fits(struct caisson_value output)
{
	return output.n <= RESULT_MAX && caisson_fits(output);
}
