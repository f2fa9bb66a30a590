/*
 * bench_json: JSON at the edge (T27): an event out of its frame, and a client's frame into a value.
 *
 *	bench_json [NAME...]	only these targets
 *
 * The floor of writing goes straight from MessagePack to text, too, and checks nothing: no UTF-8,
 * no control characters beyond ASCII's, no end of its buffer.  Beside it stands what a careless
 * gateway does: a tree of jansson's, both ways.
 */
#include <jansson.h>

#include "common/event_json.h"
#include "common/json.h"
#include "common/walk.h"
#include "gateway/frames.h"
#include "tests/bench/bench.h"

#define PASSES 21
#define ROUNDS 20000
#define BOUND  (1u << 20)

/* ---- the floor: no bound, no check ------------------------------------------------------------ */

static char *
put_text(char *out, const uint8_t *p, size_t n)
{
	*out++ = '"';
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '"' || p[i] == '\\')
			*out++ = '\\';
		*out++ = (char)p[i];
	}
	*out++ = '"';
	return out;
}

static char *
put_number(char *out, uint64_t v)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	while (n > 0)
		*out++ = digits[--n];
	return out;
}

static uint64_t
big_endian(const uint8_t *p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

/* Those tags that the event below has. */
static char *
put_value(char *out, const uint8_t **at)
{
	const uint8_t *p = *at;
	uint8_t tag = *p++;
	int width;
	size_t n;

	if (tag < 0x80) {
		out = put_number(out, tag);
	} else if (tag < 0xa0) {
		bool map = tag < 0x90;

		*out++ = map ? '{' : '[';
		for (n = tag & 0x0f; n > 0; n--) {
			if (map) {
				out = put_value(out, &p);
				*out++ = ':';
			}
			out = put_value(out, &p);
			if (n > 1)
				*out++ = ',';
		}
		*out++ = map ? '}' : ']';
	} else if (tag < 0xc0 || tag == 0xd9) {
		n = tag == 0xd9 ? *p++ : tag & 0x1f;
		out = put_text(out, p, n);
		p += n;
	} else if (tag >= 0xcc && tag <= 0xcf) {
		width = 1 << (tag - 0xcc);
		out = put_number(out, big_endian(p, width));
		p += width;
	} else {
		memcpy(out, tag == 0xc3 ? "true" : tag == 0xc2 ? "false" : "null", 5);
		out += tag == 0xc2 ? 5 : 4;
	}
	*at = p;
	return out;
}

static size_t
write_direct(const struct msg_operation_event *e, char *buffer)
{
	static const char head[] = "{\"sequence\":",
			  middle[] = ",\"type\":\"completed\",\"completed\":";
	const uint8_t *p = e->body.p;
	char *out = buffer;

	memcpy(out, head, sizeof head - 1);
	out = put_number(out + sizeof head - 1, e->sequence);
	memcpy(out, middle, sizeof middle - 1);
	out = put_value(out + sizeof middle - 1, &p);
	*out++ = '}';
	return (size_t)(out - buffer);
}

/* ---- the careless way -------------------------------------------------------------------------- */

static json_t *
tree_of(struct slice *s)
{
	struct value v = value_open(s);
	json_t *t;

	switch (v.type) {
	case VALUE_BOOL: return json_boolean(v.boolean);
	case VALUE_UINT: return json_integer((json_int_t)v.uint);
	case VALUE_STR: return json_stringn((const char *)v.bytes.p, v.bytes.n);
	case VALUE_ARRAY:
		t = json_array();
		for (uint32_t i = 0; i < v.count; i++)
			json_array_append_new(t, tree_of(s));
		return t;
	case VALUE_MAP:
		t = json_object();
		for (uint32_t i = 0; i < v.count; i++) {
			struct slice k = value_open(s).bytes;
			char name[64];

			snprintf(name, sizeof name, "%.*s", (int)k.n, (const char *)k.p);
			json_object_set_new(t, name, tree_of(s));
		}
		return t;
	default: return json_null();
	}
}

static size_t
write_tree(const struct msg_operation_event *e)
{
	struct slice body = e->body;
	json_t *t = json_object();
	char *text;
	size_t n;

	json_object_set_new(t, "sequence", json_integer((json_int_t)e->sequence));
	json_object_set_new(t, "type", json_string("completed"));
	json_object_set_new(t, "completed", tree_of(&body));
	text = json_dumps(t, JSON_COMPACT);
	n = strlen(text);
	free(text);
	json_decref(t);
	return n;
}

/* ---- the table --------------------------------------------------------------------------------- */

/* An operation's end as the broker tells it: 198 bytes of JSON in all. */
static void
pack_body(struct buf *b)
{
	pack_map(b, 4);
	pack_str(b, "status");
	pack_str(b, "complete");
	pack_str(b, "exit");
	pack_map(b, 2);
	pack_str(b, "code");
	pack_uint(b, 0);
	pack_str(b, "core");
	pack_bool(b, false);
	pack_str(b, "usage");
	pack_map(b, 3);
	pack_str(b, "cpuUs");
	pack_uint(b, 153201);
	pack_str(b, "peakBytes");
	pack_uint(b, 10321920);
	pack_str(b, "processes");
	pack_uint(b, 3);
	pack_str(b, "output");
	pack_str(b, "what an agent says at last, in a line");
}

static size_t
write_ours(const struct msg_operation_event *e)
{
	static struct buf out;

	out.n = 0;
	event_json_write(e, &out);
	if (out.failed)
		die("memory");
	return out.n;
}

static size_t
write_floor(const struct msg_operation_event *e)
{
	static char buffer[4096];

	return write_direct(e, buffer);
}

static const char request[] =
    "{\"type\":\"send\",\"idempotencyKey\":\"a-key-of-the-client-0001\",\"operation\":{\"command\":"
    "{\"argv\":[\"make\",\"-C\",\"project\",\"test\"],\"env\":{\"LANG\":\"C.UTF-8\"},"
    "\"directory\":\"project\",\"timeoutMs\":60000}}}";

static size_t
read_ours(const struct msg_operation_event *unused)
{
	struct frame f = { .type = FRAME_SEND };
	struct json_fault fault;

	(void)unused;
	if (frame_read(slice_of(request), BOUND, &f, &fault) < 0) {
		fprintf(stderr, "bench: %s\n", fault.text);
		exit(1);
	}
	frame_finish(&f);
	return sizeof request - 1;
}

/* The tree alone, of which nothing is looked at yet. */
static size_t
read_tree(const struct msg_operation_event *unused)
{
	json_t *t = json_loadb(request, sizeof request - 1, JSON_REJECT_DUPLICATES, NULL);

	(void)unused;
	if (t == NULL)
		die("jansson");
	json_decref(t);
	return sizeof request - 1;
}

static double
time_ns(size_t (*fn)(const struct msg_operation_event *e), const struct msg_operation_event *e)
{
	struct timespec begun, end;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
	for (int i = 0; i < ROUNDS; i++)
		if (fn(e) == 0)
			die("nothing was written");
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	return ((double)(end.tv_sec - begun.tv_sec) * 1e9 + (double)(end.tv_nsec - begun.tv_nsec)) /
	    ROUNDS;
}

static const struct {
	const char *name, *what;
	size_t (*product)(const struct msg_operation_event *e);
	size_t (*base)(const struct msg_operation_event *e);
} rows[] = {
	{ "T27", "an event of 198 B written", write_ours, write_floor },
	{ "T27j", "the same through a tree of jansson's", write_tree, write_floor },
	{ "T27r", "a client's frame of 187 B read and checked, against a tree of jansson's", read_ours,
	    read_tree },
};

int
main(int argc, char **argv)
{
	struct buf body = { 0 };
	struct msg_operation_event e = { .operation = slice_of("op-0123456789abcdef"),
		.sequence = 123456, .type = event_type_completed, .has_body = true };

	be_important();
	pin(0);
	pack_body(&body);
	e.body = buf_slice(&body);
	if (write_ours(&e) != write_floor(&e) || write_ours(&e) != write_tree(&e))
		die("three writers, three texts");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct series s = { 0 };
		bool chosen = argc < 2;

		for (int k = 1; k < argc; k++)
			chosen = chosen || strcmp(argv[k], rows[i].name) == 0;
		for (int pass = 0; chosen && pass < PASSES; pass++) {
			double ours = time_ns(rows[i].product, &e);

			add(&s, ours, time_ns(rows[i].base, &e));
		}
		if (chosen)
			print_series(rows[i].name, "ns", &s, rows[i].what);
	}
	buf_finish(&body);
	return 0;
}
