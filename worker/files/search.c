/*
 * files.search: names that match a pattern, at any depth below a directory.
 *
 * The order is that of a walk which takes each directory's names by their bytes, and what
 * a directory holds right behind its name.  Only names are kept, never descriptors: each
 * directory is looked up again beneath the root when its turn comes, so a link put in
 * somebody's place leads nowhere.  A call does a bounded share of the walk; the cursor is
 * the last entry seen, and every call gets at least one entry further or to the end.
 */
#include "worker/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/files/cursor.h"
#include "worker/files/glob.h"
#include "worker/files/names.h"

#define BATCH_NAMES   2048u /* names of one directory held at a time */
#define SCAN_BUDGET   (256u << 10) /* names that one call reads from directories */
#define VISIT_BUDGET  (64u << 10) /* entries that one call looks at, matching included */
#define STEPS_A_VISIT 256u /* steps of matching that cost as much as an entry */

struct level {
	struct names names;
	size_t at; /* the next one */
};

struct search {
	const struct files_call *call;
	struct level level[PATH_SEGMENTS_MAX + 1];
	size_t depth; /* levels in use */
	struct segments path; /* of the last entry: slices of `text` behind the base */
	char text[PATH_SEGMENTS_MAX][SEGMENT_BYTES_MAX + 1];
	size_t base; /* names of the directory where the search began */
	struct buf entries;
	uint32_t count, limit;
	uint64_t scanned, visited;
	uint64_t unlisted, unsearched;
};

/* Takes the names behind `after` of the directory that the first `n` names lead to. */
static int
fill(struct search *s, size_t n, const char *after, struct level *ret)
{
	cleanup_fd int dir = files_root_dir(s->call->root, &s->path, n, O_RDONLY);
	struct names names = { 0 };
	int e;

	if (dir < 0)
		return dir;
	e = names_scan(dir, after, BATCH_NAMES, &names);
	if (e < 0)
		return e;
	s->scanned += names.scanned + 1;
	if (after == NULL)
		s->unlisted += names.unlisted;
	names_finish(&ret->names);
	ret->names = names;
	ret->at = 0;
	return 0;
}

/*
 * Goes down into the entry the walk is at.  One that is not (or no more) a directory is
 * no error; one that is closed to us is counted.  Returns 1 if it is in, 0, or the errno
 * of a system that cannot go on.
 */
static int
enter(struct search *s, const char *after)
{
	struct level *lv = &s->level[s->depth];
	int e;

	*lv = (struct level){ .at = 0 };
	e = fill(s, s->base + s->depth, after, lv);
	switch (e) {
	case 0:
		s->depth++;
		return 1;
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
		return 0;
	case -EACCES:
	case -EPERM:
	case -E2BIG:
		s->unsearched++;
		return 0;
	default:
		return e;
	}
}

static void
leave(struct search *s)
{
	names_finish(&s->level[--s->depth].names);
}

/* The last name of the cursor's that a level begins behind, NUL-terminated. */
static const char *
name_of(const struct cursor *from, size_t i, char buf[SEGMENT_BYTES_MAX + 1])
{
	if (i >= from->at.n)
		return NULL;
	memcpy(buf, from->at.name[i].p, from->at.name[i].n);
	buf[from->at.name[i].n] = '\0';
	return buf;
}

/* Puts a name into the walk's path as its `i`th. */
static void
set_name(struct search *s, size_t i, const void *name, size_t len)
{
	memcpy(s->text[i], name, len);
	s->text[i][len] = '\0';
	s->path.name[i] = (struct slice){ (const uint8_t *)s->text[i], len };
}

/* Opens the first level, and those that lead to the cursor's entry as far as they still
 * exist: what is gone is passed over. */
static int
begin(struct search *s, const struct cursor *from)
{
	char after[SEGMENT_BYTES_MAX + 1];
	size_t i;
	int e;

	e = fill(s, s->base, name_of(from, 0, after), &s->level[0]);
	if (e < 0)
		return e;
	s->depth = 1;
	for (i = 0; i < from->at.n && s->base + s->depth < PATH_SEGMENTS_MAX; i++) {
		set_name(s, s->base + i, from->at.name[i].p, from->at.name[i].n);
		e = enter(s, name_of(from, i + 1, after));
		if (e <= 0)
			return e;
	}
	return 0;
}

/* Looks at one entry: the walk is at it. */
static void
visit(struct search *s, const struct name *name)
{
	uint64_t steps = 0;
	size_t n = s->base + s->depth;
	struct slice text = { (const uint8_t *)name->text, name->len };
	cleanup_free char *path = NULL;

	set_name(s, n - 1, name->text, name->len);
	s->path.n = n;
	if (glob_match(s->call->args.name, text, &steps)) {
		path = malloc(SEGMENTS_TEXT_MAX);
		if (path == NULL) {
			s->entries.failed = true;
			return;
		}
		pack_map(&s->entries, 2);
		pack_str(&s->entries, "path");
		pack_str_n(&s->entries, path, segments_join(&s->path, n, path));
		pack_str(&s->entries, "type");
		pack_str(&s->entries, files_root_type(DTTOIF(name->type)));
		s->count++;
	}
	s->visited += 1 + steps / STEPS_A_VISIT;
}

/* Is this call's share done?  Never before it got anywhere. */
static bool
is_spent(const struct search *s, bool scan)
{
	if (s->visited == 0)
		return false;
	return s->count == s->limit || s->entries.n >= FILES_REPLY_MAX ||
	    s->visited >= VISIT_BUDGET || (scan && s->scanned >= SCAN_BUDGET);
}

/* The level's names are used up: takes the next batch, or goes back up. */
static int
refill(struct search *s, struct level *lv)
{
	char last[SEGMENT_BYTES_MAX + 1];
	int e;

	if (!lv->names.more) {
		leave(s);
		return 0;
	}
	memcpy(last, lv->names.name[lv->names.n - 1].text, sizeof(last));
	e = fill(s, s->base + s->depth - 1, last, lv);
	if (e == -ENOENT || e == -ENOTDIR || e == -ELOOP || e == -EACCES || e == -EPERM) {
		leave(s);
		return 0;
	}
	return e;
}

/* May there be something below this entry? */
static bool
is_below(struct search *s, const struct name *name)
{
	if (name->type != DT_DIR)
		return false;
	if (s->base + s->depth < PATH_SEGMENTS_MAX)
		return true;
	s->unsearched++;
	return false;
}

/* Returns 1 when the whole walk is done, 0 when this call's share is. */
static int
walk(struct search *s)
{
	const struct name *name;
	struct level *lv;
	bool below;
	int e;

	while (s->depth > 0) {
		lv = &s->level[s->depth - 1];
		if (lv->at == lv->names.n) {
			if (lv->names.more && is_spent(s, true))
				return 0;
			if ((e = refill(s, lv)) < 0)
				return e;
			continue;
		}
		name = &lv->names.name[lv->at++];
		visit(s, name);
		if (s->entries.failed)
			return -ENOMEM;
		below = is_below(s, name);
		if (is_spent(s, below))
			return 0;
		if (below && (e = enter(s, NULL)) < 0)
			return e;
	}
	return 1;
}

static void
pack_found(struct search *s, bool complete, struct buf *out)
{
	struct segments at = { .n = s->path.n - s->base };

	pack_map(out, complete ? 4 : 5);
	pack_str(out, "entries");
	pack_array(out, s->count);
	buf_add(out, s->entries.p, s->entries.n);
	pack_str(out, "unlisted");
	pack_uint(out, s->unlisted);
	pack_str(out, "unsearched");
	pack_uint(out, s->unsearched);
	pack_str(out, "complete");
	pack_bool(out, complete);
	if (complete)
		return;
	memcpy(at.name, s->path.name + s->base, at.n * sizeof(at.name[0]));
	pack_str(out, "cursor");
	cursor_pack(out, 's', &at, at.n);
}

enum files_code
files_search(const struct files_call *call, struct files_reply *reply)
{
	struct search s = { .call = call, .path = call->path, .base = call->path.n };
	struct cursor from = { .text = NULL };
	int e;

	s.limit = call->args.has_limit ? (uint32_t)call->args.limit : FILES_LIST_MAX;
	if (!glob_is_valid(call->args.name))
		return files_fail(reply, "name", FILES_invalid_tool_arguments);
	if (s.base >= PATH_SEGMENTS_MAX)
		return files_fail(reply, "path", FILES_too_large);
	if (call->args.has_cursor && (cursor_unpack(call->args.cursor, 's', &from) < 0 ||
	    s.base + from.at.n > PATH_SEGMENTS_MAX)) {
		cursor_finish(&from);
		return files_fail(reply, "cursor", FILES_invalid_cursor);
	}
	e = begin(&s, &from);
	if (e == 0)
		e = walk(&s);
	if (e >= 0)
		pack_found(&s, e == 1, &reply->out);
	while (s.depth > 0)
		leave(&s);
	buf_finish(&s.entries);
	cursor_finish(&from);
	return e < 0 ? files_fail(reply, "path", files_code_of(e)) : FILES_OK;
}
