/*
 * files.grep: where a text stands in the files below a directory, or in one file.
 *
 * Files are read through in blocks, in one pass.  A call does a bounded share, of bytes as
 * of entries; the cursor is the last entry, and the place in it if it was not read to its
 * end.  Like every tool it opens regular files only, and each by its path beneath the root
 * when its turn comes.
 */
#include "worker/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/util.h"
#include "common/walk.h"
#include "worker/files/glob.h"
#include "worker/files/literal.h"
#include "worker/files/text.h"
#include "worker/files/tree.h"

#define BLOCK_BYTES   (64u << 10)
#define BYTES_BUDGET  (256u << 20) /* bytes that one call reads, and a block more */
#define BINARY_BYTES  (8u << 10) /* a NUL among the first of a file: it is binary */
#define AROUND_BYTES  128u /* of its line, on either side of what is found */
#define STEPS_A_VISIT 256u /* steps of matching that cost as much as an entry */
#define VISITS_A_FILE 3u /* what opening a file costs beside its entry */
#define OFFSET_MAX    ((1ull << 53) - 1)

struct grep {
	const struct files_call *call;
	struct literal literal;
	uint8_t *block;
	struct buf entries;
	uint32_t count, limit;
	uint64_t bytes; /* read by this call */
	uint64_t binary, unsearched; /* files */
	struct segments at; /* the last entry, behind the base */
	struct cursor_place place; /* in it, if it was left before its end */
};

static uint64_t
count_lines(const uint8_t *p, size_t n)
{
	uint64_t lines = 0;
	size_t i;

	for (i = 0; i < n; i++)
		lines += p[i] == '\n';
	return lines;
}

/* As many of `n` bytes at `offset` as there are. */
static ssize_t
read_some(int fd, uint8_t *p, size_t n, uint64_t offset)
{
	ssize_t got;

	do
		got = pread(fd, p, n, (off_t)offset);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* ---- what is told of a place ------------------------------------------------------------ */

/* The bytes of its line around what was found, on no part of a character. */
struct excerpt {
	uint8_t bytes[2 * AROUND_BYTES + LITERAL_MAX];
	size_t begin, end;
	uint64_t offset; /* of bytes[0] in the file */
	bool whole; /* the line, from its beginning to its end */
};

static void
excerpt_cut(struct excerpt *x, size_t n, size_t found, size_t found_end, bool at_end)
{
	const uint8_t *newline = found > n ? NULL : memrchr(x->bytes, '\n', found);
	bool from_start = newline != NULL || x->offset == 0, partial;
	size_t limit;

	x->begin = newline != NULL ? (size_t)(newline - x->bytes) + 1 : 0;
	while (!from_start && x->begin < found && x->begin < 3 && x->begin < n &&
	    (x->bytes[x->begin] & 0xc0) == 0x80)
		x->begin++;
	newline = found_end > n
		      ? NULL
		      : memchr(x->bytes + found_end - 1, '\n', n - found_end + 1);
	x->end = newline != NULL ? (size_t)(newline - x->bytes) : n;
	x->whole = from_start && (newline != NULL || at_end);
	if (newline != NULL || at_end || x->begin >= x->end)
		return;
	limit = text_utf8(x->bytes + x->begin, x->end - x->begin, &partial);
	if (partial && x->begin + limit >= found_end)
		x->end = x->begin + limit;
}

/* Reads it again: what stands there now is told, if anything does. */
static int
excerpt_read(int fd, uint64_t start, size_t length, struct excerpt *ret)
{
	uint64_t before = start < AROUND_BYTES ? start : AROUND_BYTES;
	size_t want = (size_t)before + length + AROUND_BYTES;
	ssize_t got;

	ret->offset = start - before;
	got = read_some(fd, ret->bytes, want, ret->offset);
	if (got < 0)
		return (int)got;
	excerpt_cut(ret, (size_t)got, (size_t)before, (size_t)before + length,
	    (size_t)got < want);
	if (ret->begin > ret->end)
		ret->begin = ret->end;
	return 0;
}

static void
pack_text(struct buf *out, const uint8_t *p, size_t n)
{
	char encoded[4 * (sizeof(((struct excerpt *)NULL)->bytes) / 3 + 1)];
	bool partial;

	if (text_utf8(p, n, &partial) == n) {
		pack_str(out, "text");
		pack_str_n(out, p, n);
		return;
	}
	base64_encode(p, n, encoded);
	pack_str(out, "base64");
	pack_str_n(out, encoded, base64_size(n));
}

static int
add_entry(struct grep *g, int fd, const struct segments *path, uint64_t line, uint64_t start)
{
	struct buf *out = &g->entries;
	struct excerpt x;
	int e = excerpt_read(fd, start, g->literal.n, &x);

	if (e < 0)
		return e;
	pack_map(out, 6);
	pack_str(out, "path");
	segments_pack(out, path);
	pack_str(out, "line");
	pack_uint(out, line);
	pack_str(out, "offset");
	pack_uint(out, start);
	pack_text(out, x.bytes + x.begin, x.end - x.begin);
	pack_str(out, "textOffset");
	pack_uint(out, x.offset + x.begin);
	pack_str(out, "whole");
	pack_bool(out, x.whole);
	g->count++;
	return 0;
}

/* ---- one file --------------------------------------------------------------------------- */

static bool
is_full(const struct grep *g)
{
	return g->count == g->limit || g->entries.n >= FILES_REPLY_MAX || g->entries.failed;
}

/* Everything in one block.  `at` is the place that it begins at, and then ends at.  Returns
 * 1 if the reply is full, 0, or negative errno. */
static int
search_block(struct grep *g, int fd, const struct segments *path, size_t n, size_t *state,
    struct cursor_place *at)
{
	const struct literal *l = &g->literal;
	const uint8_t *p = g->block;
	size_t taken;
	int e;

	while ((taken = literal_find(l, p, n, state)) > 0) {
		at->line += count_lines(p, taken);
		at->offset += taken;
		p += taken;
		n -= taken;
		e = add_entry(
		    g, fd, path, at->line - count_lines(l->text, l->n), at->offset - l->n);
		if (e < 0 || is_full(g))
			return e < 0 ? e : 1;
	}
	at->line += count_lines(p, n);
	at->offset += n;
	return 0;
}

/*
 * Reads on from `at`.  Returns 0 at the end of the file, 1 if this call's share is done
 * before it: then `g->place` is where to go on; negative errno.
 */
static int
search_open(struct grep *g, int fd, const struct segments *path, struct cursor_place at)
{
	size_t state = 0;
	ssize_t got;
	int e;

	while ((got = read_some(fd, g->block, BLOCK_BYTES, at.offset)) > 0) {
		if (at.offset == 0 && memchr(g->block, '\0',
		    (size_t)got < BINARY_BYTES ? (size_t)got : BINARY_BYTES) != NULL) {
			g->binary++;
			return 0;
		}
		g->bytes += (size_t)got;
		e = search_block(g, fd, path, (size_t)got, &state, &at);
		if (e < 0)
			return e;
		if (e == 1 || g->bytes >= BYTES_BUDGET) {
			/* What the next call may find can have begun already. */
			g->place.offset = at.offset - state;
			g->place.line = at.line - count_lines(g->literal.text, state);
			return 1;
		}
	}
	return (int)got;
}

/* One that is (no more) a file is passed over; one that cannot be read is counted. */
static int
search_file(struct grep *g, const struct segments *path, struct cursor_place at)
{
	struct stat st;
	cleanup_fd int fd = files_root_file(g->call->root, path, &st);
	int e = fd < 0 ? fd : search_open(g, fd, path, at);

	switch (e) {
	case -ENOENT:
	case -ENOTDIR:
	case -EISDIR:
	case -ELOOP:
	case -ENXIO:
		return 0;
	case -EACCES:
	case -EPERM:
	case -EIO:
		g->unsearched++;
		return 0;
	default:
		return g->entries.failed ? -ENOMEM : e;
	}
}

/* ---- all of them ------------------------------------------------------------------------ */

static const struct cursor_place from_start = { .offset = 0, .line = 1 };

static int
visit(struct tree *t, const struct name *name, void *arg)
{
	struct grep *g = arg;
	const struct files_args *args = &g->call->args;
	struct slice text = { (const uint8_t *)name->text, name->len };
	uint64_t steps = 0;
	int e;

	if (name->type != DT_REG)
		return 0;
	if (args->has_name && !glob_match(args->name, text, &steps)) {
		t->visited += steps / STEPS_A_VISIT;
		return 0;
	}
	t->visited += VISITS_A_FILE;
	e = search_file(g, &t->path, from_start);
	return e != 0 ? e : is_full(g) || g->bytes >= BYTES_BUDGET;
}

/* The file that the call before left in the middle.  Returns as search_file(). */
static int
resume(struct grep *g, const struct cursor *from)
{
	struct segments path = g->call->path;

	g->at = from->at;
	if (from->place.offset == 0)
		return 0;
	memcpy(path.name + path.n, from->at.name, from->at.n * sizeof(path.name[0]));
	path.n += from->at.n;
	return search_file(g, &path, from->place);
}

/* Returns 1 when everything is searched, 0 when this call's share is; negative errno. */
static int
search(struct grep *g, const struct cursor *from, struct tree *tree)
{
	const struct segments *base = &g->call->path;
	struct stat st;
	cleanup_fd int fd = -1;
	int e;

	if (base->n > 0) {
		fd = files_root_file(g->call->root, base, &st);
		if (fd >= 0 && base->slash)
			return -ENOTDIR;
		if (fd >= 0) {
			e = search_open(
			    g, fd, base, from->place.offset > 0 ? from->place : from_start);
			return e < 0 ? e : !e;
		}
		if (fd != -EISDIR)
			return fd;
	}
	if (base->n == PATH_SEGMENTS_MAX)
		return -E2BIG;
	e = resume(g, from);
	if (e != 0)
		return e < 0 ? e : 0;
	e = tree_walk(tree, from, visit, g);
	if (e == 0 && tree->path.n > base->n) {
		g->at.n = tree->path.n - base->n;
		memcpy(g->at.name, tree->path.name + base->n, g->at.n * sizeof(g->at.name[0]));
	}
	return e;
}

static void
pack_found(const struct grep *g, const struct tree *t, bool complete, struct buf *out)
{
	pack_map(out, complete ? 5 : 6);
	pack_str(out, "entries");
	pack_array(out, g->count);
	buf_add(out, g->entries.p, g->entries.n);
	pack_str(out, "binary");
	pack_uint(out, g->binary);
	pack_str(out, "unlisted");
	pack_uint(out, t->unlisted);
	pack_str(out, "unsearched");
	pack_uint(out, t->unsearched + g->unsearched);
	pack_str(out, "complete");
	pack_bool(out, complete);
	if (complete)
		return;
	pack_str(out, "cursor");
	cursor_pack_place(out, 'g', &g->at, g->place);
}

static bool
take_cursor(const struct files_call *call, struct cursor *ret)
{
	return !call->args.has_cursor ||
	       (cursor_unpack_place(call->args.cursor, 'g', ret) == 0 &&
		   call->path.n + ret->at.n <= PATH_SEGMENTS_MAX &&
		   ret->place.offset <= OFFSET_MAX);
}

enum files_code
files_grep(const struct files_call *call, struct files_reply *reply)
{
	const struct files_args *args = &call->args;
	struct grep g = { .call = call };
	struct cursor from = { .text = NULL };
	struct tree tree;
	int e = -ENOMEM;

	if (args->has_name && !glob_is_valid(args->name))
		return files_fail(reply, "name", FILES_invalid_tool_arguments);
	if (!take_cursor(call, &from)) {
		cursor_finish(&from);
		return files_fail(reply, "cursor", FILES_invalid_cursor);
	}
	literal_init(&g.literal, args->text, args->ignoreCase);
	g.limit = args->has_limit ? (uint32_t)args->limit : FILES_LIST_MAX;
	g.block = malloc(BLOCK_BYTES);
	tree_init(&tree, call->root, &call->path);
	if (g.block != NULL)
		e = search(&g, &from, &tree);
	if (e >= 0)
		pack_found(&g, &tree, e == 1, &reply->out);
	tree_finish(&tree);
	free(g.block);
	buf_finish(&g.entries);
	cursor_finish(&from);
	return e < 0 ? files_fail(reply, "path", files_code_of(e)) : FILES_OK;
}
