/*
 * files.search: names that match a pattern, at any depth below a directory.
 */
#include "worker/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "common/walk.h"
#include "worker/files/glob.h"
#include "worker/files/tree.h"

#define STEPS_A_VISIT 256u /* steps of matching that cost as much as an entry */

struct search {
	struct slice pattern;
	struct buf entries;
	uint32_t count, limit;
};

static int
visit(struct tree *t, const struct name *name, void *arg)
{
	struct search *s = arg;
	struct slice text = { (const uint8_t *)name->text, name->len };
	uint64_t steps = 0;
	bool found = glob_match(s->pattern, text, &steps);

	t->visited += steps / STEPS_A_VISIT;
	if (!found)
		return 0;
	pack_map(&s->entries, 2);
	pack_str(&s->entries, "path");
	segments_pack(&s->entries, &t->path);
	pack_str(&s->entries, "type");
	pack_str(&s->entries, files_root_type(DTTOIF(name->type)));
	if (s->entries.failed)
		return -ENOMEM;
	return ++s->count == s->limit || s->entries.n >= FILES_REPLY_MAX;
}

static void
pack_found(const struct search *s, const struct tree *t, bool complete, struct buf *out)
{
	struct segments at = { .n = t->path.n - t->base };

	pack_map(out, complete ? 4 : 5);
	pack_str(out, "entries");
	pack_array(out, s->count);
	buf_add(out, s->entries.p, s->entries.n);
	pack_str(out, "unlisted");
	pack_uint(out, t->unlisted);
	pack_str(out, "unsearched");
	pack_uint(out, t->unsearched);
	pack_str(out, "complete");
	pack_bool(out, complete);
	if (complete)
		return;
	memcpy(at.name, t->path.name + t->base, at.n * sizeof(at.name[0]));
	pack_str(out, "cursor");
	cursor_pack(out, 's', &at);
}

enum files_code
files_search(const struct files_call *call, struct files_reply *reply)
{
	struct search s = { .pattern = call->args.name };
	struct cursor from = { .text = NULL };
	struct tree tree;
	int e;

	s.limit = call->args.has_limit ? (uint32_t)call->args.limit : FILES_LIST_MAX;
	if (!glob_is_valid(s.pattern))
		return files_fail(reply, "name", FILES_invalid_tool_arguments);
	if (call->path.n >= PATH_SEGMENTS_MAX)
		return files_fail(reply, "path", FILES_too_large);
	if (call->args.has_cursor && (cursor_unpack(call->args.cursor, 's', &from) < 0 ||
	    call->path.n + from.at.n > PATH_SEGMENTS_MAX)) {
		cursor_finish(&from);
		return files_fail(reply, "cursor", FILES_invalid_cursor);
	}
	tree_init(&tree, call->root, &call->path);
	e = tree_walk(&tree, &from, visit, &s);
	if (e >= 0)
		pack_found(&s, &tree, e == 1, &reply->out);
	tree_finish(&tree);
	buf_finish(&s.entries);
	cursor_finish(&from);
	return e < 0 ? files_fail(reply, "path", files_code_of(e)) : FILES_OK;
}
