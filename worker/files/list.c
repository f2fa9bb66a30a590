/*
 * files.list: one directory, a page at a time.  Each page is one scan that keeps the
 * smallest names behind the cursor, so memory is that of a page.
 */
#include "worker/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/files/cursor.h"
#include "worker/files/names.h"

/* Reads the cursor's one name into `after`. */
static int
cursor_name(struct slice text, char after[SEGMENT_BYTES_MAX + 1])
{
	struct cursor c = { .text = NULL };
	int e = cursor_unpack(text, 'l', &c);

	if (e == 0 && c.at.n != 1)
		e = -EINVAL;
	if (e == 0)
		files_root_leaf(&c.at, after);
	cursor_finish(&c);
	return e;
}

/* Packs the entries that are still there; returns how many. */
static uint32_t
pack_entries(int dir, const struct names *names, struct buf *out)
{
	struct stat st;
	uint32_t count = 0;
	size_t i;

	for (i = 0; i < names->n; i++) {
		if (fstatat(dir, names->name[i].text, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		pack_map(out, 3);
		pack_str(out, "name");
		pack_str_n(out, names->name[i].text, names->name[i].len);
		pack_str(out, "type");
		pack_str(out, files_root_type(st.st_mode));
		pack_str(out, "size");
		pack_uint(out, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0);
		count++;
	}
	return count;
}

static void
pack_page(int dir, const struct names *names, struct buf *out)
{
	const struct name *last = names->n > 0 ? &names->name[names->n - 1] : NULL;
	struct segments at = { .n = 0 };
	struct buf entries = { 0 };
	uint32_t count = pack_entries(dir, names, &entries);

	pack_map(out, names->more ? 4 : 3);
	pack_str(out, "entries");
	pack_array(out, count);
	buf_add(out, entries.p, entries.n);
	out->failed = out->failed || entries.failed;
	buf_finish(&entries);
	pack_str(out, "unlisted");
	pack_uint(out, names->unlisted);
	pack_str(out, "complete");
	pack_bool(out, !names->more);
	if (!names->more)
		return;
	at.name[at.n++] = (struct slice){ (const uint8_t *)last->text, last->len };
	pack_str(out, "cursor");
	cursor_pack(out, 'l', &at);
}

enum files_code
files_list(const struct files_call *call, struct files_reply *reply)
{
	char after[SEGMENT_BYTES_MAX + 1];
	struct names names = { 0 };
	cleanup_fd int dir = -1;
	int e;

	if (call->args.has_cursor && cursor_name(call->args.cursor, after) < 0)
		return files_fail(reply, "cursor", FILES_invalid_cursor);
	dir = files_root_dir(call->root, &call->path, call->path.n, O_RDONLY);
	if (dir < 0)
		return files_fail(reply, "path", files_code_of(dir));
	e = names_scan(dir, call->args.has_cursor ? after : NULL,
	    call->args.has_limit ? call->args.limit : FILES_LIST_MAX, &names);
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	pack_page(dir, &names, &reply->out);
	names_finish(&names);
	return FILES_OK;
}
