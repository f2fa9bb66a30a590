#include "gateway/session_files.h"

#include <inttypes.h>
#include <stdio.h>

#include "gateway/caller.h"

#define PAGE_DEFAULT   100
#define PAGE_MAX       1000
#define PATH_MAX_CHARS 4096
#define CURSOR_MAX     1024
#define CONTENT_MAX    (1u << 20) /* bytes of one answer */

/* False: the client has been refused. */
static bool
read_path(struct caller *x, bool required, bool *ret_has, struct slice *ret)
{
	*ret_has = http_param(caller_request(x), "path", ret);
	if ((!required && !*ret_has) || (*ret_has && ret->n > 0 && ret->n <= PATH_MAX_CHARS))
		return true;
	caller_refuse(x, "invalid_argument", "path: %s",
	    !*ret_has	  ? "is missing"
	    : ret->n == 0 ? "is empty"
			  : "has more than 4096 bytes");
	return false;
}

static void
on_entries(struct caller *x, const struct message *m)
{
	const struct msg_file_list_reply *reply = &m->u.file_list_reply;

	caller_answer_page(x, "entries", reply->entries,
	    reply->has_next ? reply->next : (struct slice){ NULL, 0 });
}

void
session_files_list(struct caller *x)
{
	const struct request *r = caller_request(x);
	struct msg_file_list m = { .session = routes_session(r) };

	m.has_cursor = http_param(r, "cursor", &m.cursor);
	if (!read_path(x, false, &m.has_path, &m.path) ||
	    !caller_number(x, "limit", 1, PAGE_MAX, PAGE_DEFAULT, &m.limit))
		return;
	if (m.has_cursor && (m.cursor.n == 0 || m.cursor.n > CURSOR_MAX))
		caller_refuse(x, "invalid_argument", "cursor: is none of this directory");
	else
		caller_ask(x, MSG_file_list, &m, on_entries);
}

static void
on_entry(struct caller *x, const struct message *m)
{
	caller_answer_value(x, 200, m->u.file_stat_reply.entry);
}

void
session_files_stat(struct caller *x)
{
	struct msg_file_stat m = { .session = routes_session(caller_request(x)) };

	if (read_path(x, true, &m.has_path, &m.path))
		caller_ask(x, MSG_file_stat, &m, on_entry);
}

/* ---- content ----------------------------------------------------------------------------- */

static void
answer_content(struct caller *x)
{
	char range[72];
	struct response r = { .status = x->partial ? 206 : 200,
		.type = "application/octet-stream",
		.body = buf_slice(&x->content),
		.fields = { { "Accept-Ranges", "bytes" }, { NULL, NULL } } };

	if (x->partial) {
		snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
		    x->offset, x->offset + x->content.n - 1, x->size);
		r.fields[1].name = "Content-Range";
		r.fields[1].value = range;
	}
	caller_respond(x, &r);
}

/* The range begins behind the end. */
static void
answer_no_range(struct caller *x)
{
	static const char body[] = "{\"error\":{\"code\":\"out_of_range\",\"message\":\"the "
				   "file ends before this range\"}}";
	char range[48];

	snprintf(range, sizeof(range), "bytes */%" PRIu64, x->size);
	caller_respond(x, &(struct response){ .status = 416,
			      .type = "application/json",
			      .body = slice_of(body),
			      .fields = { { "Content-Range", range }, { NULL, NULL } } });
}

static void on_content(struct caller *x, const struct message *m);

static void
ask_content(struct caller *x, uint64_t offset, uint64_t length)
{
	struct msg_file_read m = { .session = routes_session(caller_request(x)),
		.has_offset = true,
		.offset = offset,
		.has_length = true,
		.length = length };

	http_param(caller_request(x), "path", &m.path);
	caller_ask(x, MSG_file_read, &m, on_content);
}

/* The first answer says how long the file is, and so what is wanted of it.  False: the client
 * has been answered. */
static bool
settle_range(struct caller *x, uint64_t size)
{
	struct range range;

	x->size = size;
	if (!fields_range(caller_request(x), &range)) {
		x->wanted = size;
		if (size <= CONTENT_MAX)
			return true;
		caller_refuse_as(x, 413, "resource_exhausted",
		    slice_of("the file is larger than 1 MiB: ask for parts of it (Range)"));
		return false;
	}
	x->partial = true;
	if (range.suffix) {
		x->offset = range.first < size ? size - range.first : 0;
		range.last = UINT64_MAX;
	} else {
		x->offset = range.first;
	}
	if (x->offset >= size || (range.suffix && range.first == 0)) {
		answer_no_range(x);
		return false;
	}
	x->wanted = (range.last < size ? range.last + 1 : size) - x->offset;
	if (x->wanted > CONTENT_MAX)
		x->wanted = CONTENT_MAX;
	return true;
}

/*
 * A frame holds less than an answer may: what is missing is asked for again.  A file that
 * becomes another meanwhile is not mixed with it, as far as its size shows.
 */
static void
on_content(struct caller *x, const struct message *m)
{
	const struct msg_file_read_reply *reply = &m->u.file_read_reply;
	bool first = x->size == UINT64_MAX;
	uint64_t before = x->offset;

	if (first && !settle_range(x, reply->size))
		return;
	if (reply->size != x->size) {
		caller_refuse(x, "failed_precondition", "the file changed while it was read");
		return;
	}
	if (!first || x->offset == before) {
		uint64_t missing = x->wanted - x->content.n;

		if (reply->content.n == 0 && missing > 0) {
			caller_refuse(
			    x, "failed_precondition", "the file changed while it was read");
			return;
		}
		buf_add(&x->content, reply->content.p,
		    reply->content.n < missing ? reply->content.n : (size_t)missing);
	}
	if (x->content.failed)
		caller_refuse(x, "unavailable", "memory is out");
	else if (x->content.n < x->wanted)
		ask_content(x, x->offset + x->content.n, x->wanted - x->content.n);
	else
		answer_content(x);
}

void
session_files_content(struct caller *x)
{
	struct range range;
	struct slice path;
	bool has;

	if (!read_path(x, true, &has, &path))
		return;
	x->size = UINT64_MAX; /* not known yet */
	x->partial = false;
	x->offset = 0;
	if (!fields_range(caller_request(x), &range)) {
		ask_content(x, 0, CONTENT_MAX);
	} else if (range.suffix) {
		ask_content(x, 0, 1);
	} else {
		x->offset = range.first;
		ask_content(x, range.first,
		    range.last - range.first < CONTENT_MAX ? range.last - range.first + 1
							   : CONTENT_MAX);
	}
}
