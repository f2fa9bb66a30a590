#include "client/answer.h"

#include <errno.h>
#include <string.h>

#include "client/text.h"
#include "common/json.h"
#include "common/util.h"

const struct answer_shape answer_sessions = { "sessions",
	{ { "SESSION", "id", ANSWER_TEXT, "runtime" }, { "STATE", "state", ANSWER_TEXT, NULL },
	    { "PRINCIPAL", "principal", ANSWER_TEXT, NULL },
	    { "QUEUED", "queued", ANSWER_NUMBER, NULL },
	    { "OPERATIONS", "operations", ANSWER_NUMBER, NULL },
	    { "RUNNING", "running", ANSWER_TEXT, NULL },
	    { "ACQUIRED", "acquiredAt", ANSWER_TIME, NULL },
	    { "LEASE UNTIL", "leaseUntil", ANSWER_TIME, NULL } } };
const struct answer_shape answer_operations = { "operations",
	{ { "OPERATION", "operationID", ANSWER_TEXT, NULL }, { "KIND", "kind", ANSWER_TEXT, NULL },
	    { "STATE", "state", ANSWER_TEXT, NULL }, { "CODE", "code", ANSWER_TEXT, NULL },
	    { "EVENTS", "sequence", ANSWER_NUMBER, NULL },
	    { "ACCEPTED", "acceptedAt", ANSWER_TIME, NULL },
	    { "ENDED", "endedAt", ANSWER_TIME, NULL } } };
const struct answer_shape answer_files = { "entries",
	{ { "NAME", "name", ANSWER_TEXT, NULL }, { "TYPE", "type", ANSWER_TEXT, NULL },
	    { "SIZE", "size", ANSWER_NUMBER, NULL } } };

static const struct json_bounds bounds = { 2u << 20, VALUE_DEPTH_MAX, VALUE_NODES_MAX };

/* The object that `text` is. */
static int
read_object(const char *text, struct buf *ret)
{
	struct slice all = { (const uint8_t *)text, strlen(text) };
	char err[JSON_ERROR_MAX];
	int r = json_read_bounded(all, &bounds, ret, err);

	if (r < 0)
		return r;
	all = buf_slice(ret);
	return value_open(&all).type == VALUE_MAP ? 0 : -EINVAL;
}

int
answer_rows(const char *text, const struct answer_shape *shape, struct buf *page,
    struct value *ret_list, char cursor[ANSWER_CURSOR_MAX])
{
	struct value next;
	int r = read_object(text, page);

	cursor[0] = '\0';
	if (r < 0)
		return r;
	if (!value_get(buf_slice(page), shape->list, ret_list) || ret_list->type != VALUE_ARRAY)
		return -EINVAL;
	if (!value_get(buf_slice(page), "next", &next))
		return 0;
	if (next.type != VALUE_STR || next.bytes.n == 0 || next.bytes.n >= ANSWER_CURSOR_MAX)
		return -EINVAL;
	memcpy(cursor, next.bytes.p, next.bytes.n);
	cursor[next.bytes.n] = '\0';
	return 0;
}

int
answer_print(const char *text, bool jsonl, struct buf *out)
{
	struct buf object = { 0 };
	int r = read_object(text, &object);

	if (r == 0 && jsonl)
		json_write(buf_slice(&object), out);
	else if (r == 0)
		json_write_pretty(buf_slice(&object), out);
	buf_add(out, "\n", 1);
	buf_finish(&object);
	return r == 0 && out->failed ? -ENOMEM : r;
}

int
answer_print_rows(const char *text, const struct answer_shape *shape, struct buf *out,
    char cursor[ANSWER_CURSOR_MAX])
{
	struct buf page = { 0 };
	struct value list;
	int r = answer_rows(text, shape, &page, &list, cursor);

	if (r == 0) {
		struct slice rest = list.raw;
		uint32_t n = value_next(&rest).count;

		for (; n > 0; n--) {
			json_write(value_skip(&rest).raw, out);
			buf_add(out, "\n", 1);
		}
	}
	buf_finish(&page);
	return r == 0 && out->failed ? -ENOMEM : r;
}

/* ---- tables ------------------------------------------------------------------------------ */

void
answer_table_init(struct answer_table *t, const struct answer_shape *shape)
{
	size_t n = 0;

	*t = (struct answer_table){ .shape = shape };
	for (; n < CELLS_COLUMNS_MAX && shape->columns[n].head != NULL; n++)
		t->heads[n] = shape->columns[n].head;
	t->cells = (struct cells){ .heads = t->heads, .columns = n };
}

static void
add_cell(struct answer_table *t, const struct answer_column *c, struct slice row)
{
	struct value v, before;
	bool has = value_get(row, c->member, &v);

	if (c->kind == ANSWER_TEXT && has && v.type == VALUE_STR) {
		if (c->before != NULL && value_get(row, c->before, &before) &&
		    before.type == VALUE_STR) {
			text_escape_line(before.bytes, &t->cells.text);
			buf_add(&t->cells.text, "/", 1);
		}
		text_escape_line(v.bytes, &t->cells.text);
		cells_end(&t->cells);
	} else if (c->kind == ANSWER_NUMBER) {
		cells_add_uint(&t->cells, has && v.type == VALUE_UINT, has ? v.uint : 0);
	} else if (c->kind == ANSWER_TIME && has && v.type == VALUE_UINT) {
		text_add_time(&t->cells.text, v.uint, "%Y-%m-%dT%H:%M:%SZ", false);
		cells_end(&t->cells);
	} else {
		cells_add_text(&t->cells, false, (struct slice){ NULL, 0 });
	}
}

int
answer_table_add(struct answer_table *t, const char *text, char cursor[ANSWER_CURSOR_MAX])
{
	struct buf page = { 0 };
	struct value list;
	int r = answer_rows(text, t->shape, &page, &list, cursor);

	if (r == 0) {
		struct slice rest = list.raw;
		uint32_t n = value_next(&rest).count;

		for (; n > 0 && r == 0; n--) {
			struct value row = value_skip(&rest);

			if (row.type != VALUE_MAP)
				r = -EINVAL;
			for (size_t i = 0; r == 0 && i < t->cells.columns; i++)
				add_cell(t, &t->shape->columns[i], row.raw);
		}
	}
	buf_finish(&page);
	return r == 0 && (t->cells.text.failed || t->cells.ends.failed) ? -ENOMEM : r;
}

void
answer_table_render(const struct answer_table *t, struct buf *out)
{
	if (cells_rows(&t->cells) == 0)
		return;
	cells_render_head(&t->cells, out);
	for (size_t i = 0; i < cells_rows(&t->cells); i++)
		cells_render_row(&t->cells, i, out);
}

void
answer_table_finish(struct answer_table *t)
{
	cells_finish(&t->cells);
}
