#include "client/grant_render.h"

#include <string.h>

#include "client/text.h"
#include "common/json.h"
#include "common/util.h"
#include "common/walk.h"

#define GREEN "\033[32m"
#define RED   "\033[31m"
#define RESET "\033[0m"

static const char *const heads[] = { "ID", "SUBJECT", "ISSUER", "STATE", "USES", "EXPIRES",
	"PARENT", "ALLOWS" };

/* ---- parts of maps ----------------------------------------------------------------- */

static void
add(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text));
}

static bool
get(struct slice map, const char *key, enum value_type type, struct value *ret)
{
	return value_get(map, key, ret) && ret->type == type;
}

/* The text of a member, escaped. */
static void
add_member(struct buf *out, struct slice map, const char *key)
{
	struct value v;

	if (get(map, key, VALUE_STR, &v))
		text_escape_line(v.bytes, out);
}

/* Texts with `between` between them. */
static void
add_words(struct buf *out, struct slice list, const char *between)
{
	struct value v = value_next(&list), word;
	uint32_t i;

	for (i = 0; v.type == VALUE_ARRAY && i < v.count; i++) {
		if (i > 0)
			add(out, between);
		word = value_skip(&list);
		if (word.type == VALUE_STR)
			text_escape_line(word.bytes, out);
	}
}

static void
add_instant(struct buf *out, uint64_t ms)
{
	if (text_add_time(out, ms, "%FT%T", false))
		add(out, "Z");
}

void
grant_render_capability(struct slice map, struct buf *out)
{
	struct value actions, path, v;
	bool descendants;

	if (!get(map, "actions", VALUE_ARRAY, &actions) ||
	    !get(map, "path", VALUE_ARRAY, &path))
		return;
	add_words(out, actions.raw, ",");
	add(out, ":");
	add_member(out, map, "namespace");
	add(out, ":");
	descendants = get(map, "scope", VALUE_STR, &v) && slice_is(v.bytes, "descendants");
	add_words(out, path.raw, "/");
	if (descendants)
		add(out, path.count > 0 ? "/**" : "**");
	else if (path.count == 0)
		add(out, ".");
	if (get(map, "owner", VALUE_STR, &v)) {
		add(out, "@");
		text_escape_line(v.bytes, out);
	}
}

/* ---- a table ----------------------------------------------------------------------- */

void
grant_table_init(struct grant_table *t)
{
	*t = (struct grant_table){ .cells = { .heads = heads, .columns = countof(heads) } };
}

static void
cell_member(struct cells *t, struct slice map, const char *key)
{
	struct value v = { 0 };
	bool has = get(map, key, VALUE_STR, &v);

	cells_add_text(t, has, has ? v.bytes : (struct slice){ 0 });
}

static void
cell_uses(struct cells *t, struct slice map)
{
	struct value spent, most;

	if (get(map, "maxUses", VALUE_UINT, &most))
		text_addf(&t->text, "%llu of %llu",
		    get(map, "spent", VALUE_UINT, &spent) ? (unsigned long long)spent.uint : 0,
		    (unsigned long long)most.uint);
	else
		add(&t->text, "-");
	cells_end(t);
}

static void
cell_instant(struct cells *t, struct slice map, const char *key)
{
	struct value v;

	if (get(map, key, VALUE_UINT, &v))
		add_instant(&t->text, v.uint);
	else
		add(&t->text, "-");
	cells_end(t);
}

static void
cell_capabilities(struct cells *t, struct slice map)
{
	struct value v = { 0 }, item;
	struct slice rest = { 0 };
	uint32_t i;

	if (get(map, "capabilities", VALUE_ARRAY, &v)) {
		rest = v.raw;
		value_next(&rest);
	}
	for (i = 0; rest.n > 0 && i < v.count; i++) {
		add(&t->text, i > 0 ? "  " : "");
		item = value_skip(&rest);
		if (item.type == VALUE_MAP)
			grant_render_capability(item.raw, &t->text);
	}
	if (get(map, "call", VALUE_MAP, &v)) {
		add(&t->text, ", by one call of ");
		add_member(&t->text, v.raw, "tool");
	}
	cells_end(t);
}

static void
detail_instant(struct buf *out, struct slice map, const char *key, const char *text)
{
	struct value v;

	if (!get(map, key, VALUE_UINT, &v))
		return;
	add(out, text);
	add_instant(out, v.uint);
}

/* "    issued ... (record), revoked ...; for: a, b; may be handed on 2 deep" */
static void
add_detail(struct buf *out, struct slice map)
{
	struct value v;

	add(out, "    in ");
	add_member(out, map, "namespace");
	detail_instant(out, map, "issuedAt", ", issued ");
	if (get(map, "origin", VALUE_STR, &v)) {
		add(out, " by ");
		text_escape_line(v.bytes, out);
	}
	detail_instant(out, map, "notBefore", ", begins ");
	detail_instant(out, map, "revokedAt", ", revoked ");
	if (get(map, "purposes", VALUE_ARRAY, &v)) {
		add(out, "; for: ");
		add_words(out, v.raw, ", ");
	}
	if (get(map, "delegationDepth", VALUE_UINT, &v) && v.uint > 0)
		text_addf(out, "; may be handed on, %llu deep", (unsigned long long)v.uint);
	add(out, "\n");
}

static void
table_add_grant(struct grant_table *t, struct slice map)
{
	cell_member(&t->cells, map, "id");
	cell_member(&t->cells, map, "subject");
	cell_member(&t->cells, map, "issuer");
	cell_member(&t->cells, map, "state");
	cell_uses(&t->cells, map);
	cell_instant(&t->cells, map, "expiresAt");
	cell_member(&t->cells, map, "parent");
	cell_capabilities(&t->cells, map);
	add_detail(&t->detail, map);
}

void
grant_table_add(struct grant_table *t, struct slice list)
{
	struct value v = value_next(&list), item;
	uint32_t i;

	for (i = 0; v.type == VALUE_ARRAY && i < v.count; i++) {
		item = value_skip(&list);
		if (item.type == VALUE_MAP)
			table_add_grant(t, item.raw);
	}
}

void
grant_table_render(const struct grant_table *t, bool verbose, struct buf *out)
{
	const uint8_t *detail = t->detail.p, *end;
	size_t i, n = cells_rows(&t->cells);

	if (t->detail.failed) {
		out->failed = true;
		return;
	}
	if (n > 0)
		cells_render_head(&t->cells, out);
	for (i = 0; i < n; i++, detail = end) {
		end = (const uint8_t *)memchr(detail, '\n', t->detail.n) + 1;
		cells_render_row(&t->cells, i, out);
		if (verbose)
			buf_add(out, detail, (size_t)(end - detail));
	}
}

void
grant_table_finish(struct grant_table *t)
{
	cells_finish(&t->cells);
	buf_finish(&t->detail);
}

/* ---- asks that wait ---------------------------------------------------------------- */

void
grant_asks_init(struct cells *t)
{
	static const char *const asks[] = { "ID", "REQUESTER", "ASKED", "OPERATION", "CALL" };

	*t = (struct cells){ .heads = asks, .columns = countof(asks) };
}

static bool
is_pending(struct value item)
{
	struct value v;

	return item.type == VALUE_MAP && get(item.raw, "status", VALUE_STR, &v) &&
	       slice_is(v.bytes, "pending");
}

/* "files.write  write:workspace:docs/a", or "-" where no call was named. */
static void
cell_call(struct cells *t, struct slice map)
{
	struct value path;

	if (get(map, "path", VALUE_ARRAY, &path)) {
		add_member(&t->text, map, "tool");
		add(&t->text, "  ");
		add_member(&t->text, map, "action");
		add(&t->text, ":");
		add_member(&t->text, map, "resource");
		add(&t->text, ":");
		add_words(&t->text, path.raw, "/");
		add(&t->text, path.count == 0 ? "." : "");
	} else {
		add(&t->text, "-");
	}
	cells_end(t);
}

void
grant_asks_add(struct cells *t, struct slice list)
{
	struct value v = value_next(&list), item;
	uint32_t i;

	for (i = 0; v.type == VALUE_ARRAY && i < v.count; i++) {
		item = value_skip(&list);
		if (!is_pending(item))
			continue;
		cell_member(t, item.raw, "id");
		cell_member(t, item.raw, "requester");
		cell_instant(t, item.raw, "requestedAt");
		cell_member(t, item.raw, "operation");
		cell_call(t, item.raw);
	}
}

void
grant_render_asks_jsonl(struct slice list, struct buf *out)
{
	struct value v = value_next(&list), item;
	uint32_t i;

	for (i = 0; v.type == VALUE_ARRAY && i < v.count; i++) {
		item = value_skip(&list);
		if (!is_pending(item))
			continue;
		json_write(item.raw, out);
		add(out, "\n");
	}
}

/* ---- for programs ------------------------------------------------------------------ */

void
grant_render_list_jsonl(struct slice list, struct buf *out)
{
	struct value v = value_next(&list), item;
	uint32_t i;

	for (i = 0; v.type == VALUE_ARRAY && i < v.count; i++) {
		item = value_skip(&list);
		json_write(item.raw, out);
		add(out, "\n");
	}
}

void
grant_render_jsonl(enum msg_type type, const void *m, struct buf *out)
{
	struct buf packed = { 0 };

	if (protocol_pack(&packed, type, m) < 0)
		out->failed = true;
	else
		json_write(buf_slice(&packed), out);
	buf_finish(&packed);
	add(out, "\n");
}

/* ---- for people -------------------------------------------------------------------- */

void
grant_render_issued(const struct msg_grant_issue_reply *m, bool verbose, struct buf *out)
{
	struct grant_table t;

	add(out, "issued ");
	text_escape_line(m->id, out);
	add(out, " at ");
	add_instant(out, m->at);
	add(out, "; turns that begin from now on see it\n");
	grant_table_init(&t);
	table_add_grant(&t, m->grant);
	grant_table_render(&t, verbose, out);
	grant_table_finish(&t);
}

void
grant_render_revoked(
    struct slice id, const struct msg_grant_revoke_reply *m, struct buf *out)
{
	struct slice list = m->dispatched;
	struct value v = value_next(&list), call;
	uint32_t i;

	add(out, m->already ? "was revoked already: " : "revoked ");
	text_escape_line(id, out);
	add(out, m->already ? ", at " : " at ");
	add_instant(out, m->at);
	add(out, "\n");
	if (v.count > 0)
		add(out, "calls that had begun, and go on:\n");
	for (i = 0; v.type == VALUE_ARRAY && i < v.count; i++) {
		call = value_skip(&list);
		if (call.type != VALUE_MAP)
			continue;
		add(out, "  ");
		add_member(out, call.raw, "tool");
		add(out, "  operation ");
		add_member(out, call.raw, "operation");
		add(out, "  call ");
		add_member(out, call.raw, "call");
		add(out, "\n");
	}
	if (m->omitted > 0)
		text_addf(out, "  and %llu more: see caisson audit query\n",
		    (unsigned long long)m->omitted);
}

bool
grant_is_allowed(const struct msg_grant_why_reply *m)
{
	return m->allowed && (!m->has_admission || slice_is(m->admission, "allowed"));
}

static void
add_requirement(struct buf *out, const struct msg_grant_why_reply *m)
{
	if (!m->has_action)
		return;
	add(out, ": it needs ");
	text_escape_line(m->action, out);
	if (m->has_resource) {
		add(out, ":");
		text_escape_line(m->resource, out);
	}
	if (m->has_path) {
		struct slice list = m->path;

		add(out, ":");
		add_words(out, m->path, "/");
		add(out, value_next(&list).count == 0 ? "." : "");
	}
}

void
grant_render_why(const struct msg_grant_why_reply *m, bool colour, struct buf *out)
{
	bool yes = grant_is_allowed(m);

	add(out, colour ? yes ? GREEN : RED : "");
	add(out, yes ? "yes" : "no");
	add(out, colour ? RESET : "");
	if (!m->allowed) {
		add(out, ", ");
		text_escape_line(m->code, out);
	} else if (!yes) {
		add(out, ", a turn of it would not be admitted, ");
		text_escape_line(m->admission, out);
	}
	add_requirement(out, m);
	if (m->allowed && m->has_grant) {
		add(out, ", which the grant ");
		text_escape_line(m->grant, out);
		add(out, " allows");
	}
	add(out, "\n");
	if (!m->allowed && m->has_closest) {
		add(out, "  closest is the grant ");
		text_escape_line(m->closest, out);
		add(out, "\n");
	}
	if (!m->allowed && (m->has_cause || m->has_detail)) {
		add(out, "  what is missing: ");
		text_escape_line(m->has_cause ? m->cause : m->detail, out);
		if (m->has_cause && m->has_detail) {
			add(out, ": ");
			text_escape_line(m->detail, out);
		}
		add(out, "\n");
	}
	if (!m->allowed && m->has_admission && !slice_is(m->admission, "allowed")) {
		add(out, "  nor would a turn of it be admitted: ");
		text_escape_line(m->admission, out);
		add(out, "\n");
	}
}
