/*
 * files.read and files.stat.  A hard link is read like any file: whoever made it could
 * read both names.
 */
#include "worker/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/util.h"
#include "common/walk.h"
#include "worker/files/text.h"

/* As many of `want` bytes as there are.  Returns how many, or negative errno. */
static ssize_t
read_at(int fd, uint8_t *p, size_t want, uint64_t offset)
{
	size_t used = 0;
	ssize_t got;

	while (used < want) {
		got = pread(fd, p + used, want - used, (off_t)(offset + used));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	return (ssize_t)used;
}

/*
 * Packs the slice as `text` if it is UTF-8, else as `base64`.  A character that the end of
 * a slice cuts in two is left to the next read: returns the bytes that were packed.
 */
static size_t
pack_slice(struct buf *out, const uint8_t *p, size_t n, bool more)
{
	cleanup_free char *encoded = NULL;
	bool partial;
	size_t valid = text_utf8(p, n, &partial);

	if (valid == n || (valid > 0 && partial && more)) {
		pack_str(out, "text");
		pack_str_n(out, p, valid);
		return valid;
	}
	encoded = malloc(base64_size(n));
	if (encoded == NULL) {
		out->failed = true;
		return n;
	}
	base64_encode(p, n, encoded);
	pack_str(out, "base64");
	pack_str_n(out, encoded, base64_size(n));
	return n;
}

static void
pack_number(struct buf *out, const char *key, uint64_t v)
{
	pack_str(out, key);
	pack_uint(out, v);
}

enum files_code
files_read_bytes(const struct files_call *call, struct files_reply *reply, uint8_t **ret_bytes,
    size_t *ret_n, uint64_t *ret_size)
{
	const struct files_args *args = &call->args;
	size_t want = args->has_length ? args->length : FILES_READ_MAX;
	cleanup_free uint8_t *bytes = NULL;
	cleanup_fd int fd = -1;
	struct stat st;
	ssize_t got;

	fd = files_root_file(call->root, &call->path, &st);
	if (fd < 0)
		return files_fail(reply, "path", files_code_of(fd));
	if (call->path.slash)
		return files_fail(reply, "path", FILES_not_directory);
	bytes = malloc(want);
	if (bytes == NULL)
		return files_fail(reply, "length", FILES_io);
	got = read_at(fd, bytes, want, args->has_offset ? args->offset : 0);
	if (got < 0)
		return files_fail(reply, "path", files_code_of((int)got));
	/* It may have grown or shrunk meanwhile: what counts is how it is now. */
	if (fstat(fd, &st) < 0)
		return files_fail(reply, "path", FILES_io);
	*ret_bytes = bytes;
	bytes = NULL;
	*ret_n = (size_t)got;
	*ret_size = (uint64_t)st.st_size;
	return FILES_OK;
}

enum files_code
files_read(const struct files_call *call, struct files_reply *reply)
{
	uint64_t offset = call->args.has_offset ? call->args.offset : 0, size;
	cleanup_free uint8_t *bytes = NULL;
	enum files_code code;
	size_t got;

	code = files_read_bytes(call, reply, &bytes, &got, &size);
	if (code != FILES_OK)
		return code;
	pack_map(&reply->out, 5);
	got = pack_slice(&reply->out, bytes, got, offset + got < size);
	pack_number(&reply->out, "offset", offset);
	pack_number(&reply->out, "length", got);
	pack_number(&reply->out, "size", size);
	pack_str(&reply->out, "complete");
	pack_bool(&reply->out, offset + got >= size);
	return FILES_OK;
}

/* Files and directories only, and no link is followed to them. */
static int
stat_path(const struct files_root *root, const struct segments *s, struct stat *ret)
{
	char leaf[SEGMENT_BYTES_MAX + 1];
	cleanup_fd int dir = -1;
	int e;

	dir = files_root_dir(root, s, s->n > 0 ? s->n - 1 : 0, O_PATH);
	if (dir < 0)
		return dir;
	if (s->n == 0)
		return fstat(dir, ret) < 0 ? -errno : 0;
	files_root_leaf(s, leaf);
	if (fstatat(dir, leaf, ret, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	e = files_root_check(ret);
	if (e == 0 && s->slash)
		return -ENOTDIR;
	return e == -EISDIR ? 0 : e;
}

enum files_code
files_stat(const struct files_call *call, struct files_reply *reply)
{
	struct stat st;
	int e = stat_path(call->root, &call->path, &st);

	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	pack_map(&reply->out, 6);
	pack_str(&reply->out, "type");
	pack_str(&reply->out, files_root_type(st.st_mode));
	pack_number(&reply->out, "size", (uint64_t)st.st_size);
	pack_number(&reply->out, "mode", st.st_mode & 07777);
	pack_str(&reply->out, "modified");
	pack_int(&reply->out, (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
	pack_number(&reply->out, "links", st.st_nlink);
	pack_str(&reply->out, "complete");
	pack_bool(&reply->out, true);
	return FILES_OK;
}
