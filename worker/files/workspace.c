#include "worker/files/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/files/args.h"
#include "worker/files/empty.h"
#include "worker/files/target.h"

/* One boolean member and nothing else. */
static enum files_code
pack_answer(struct files_reply *reply, const char *key, bool value)
{
	pack_map(&reply->out, 1);
	pack_str(&reply->out, key);
	pack_bool(&reply->out, value);
	return FILES_OK;
}

/* What has the name, whatever it is. */
static int
look(struct target *t)
{
	t->exists = fstatat(t->dir, t->leaf, &t->old, AT_SYMLINK_NOFOLLOW) == 0;
	return t->exists || errno == ENOENT ? 0 : -errno;
}

/* Opens the place that `path` names, and looks at it. */
static int
find(const struct files_root *root, const struct segments *path, struct target *t)
{
	int e = target_open(root, path, t);

	if (e == 0)
		e = look(t);
	if (e == 0 && t->exists && path->slash && !S_ISDIR(t->old.st_mode))
		e = -ENOTDIR;
	return e;
}

/* ---- reads ------------------------------------------------------------------------------- */

static void
pack_member(struct buf *out, const char *key, struct slice value)
{
	pack_str(out, key);
	pack_raw(out, value);
}

static enum files_code
serve_list(const struct files_call *call, struct files_reply *reply)
{
	struct files_reply page = { .field = NULL };
	enum files_code code = files_list(call, &page);
	struct value entries, next;
	struct slice all = { page.out.p, page.out.n };
	bool more;

	if (code == FILES_OK && !page.out.failed && value_get(all, "entries", &entries)) {
		more = value_get(all, "cursor", &next);
		pack_map(&reply->out, more ? 2 : 1);
		pack_member(&reply->out, "entries", entries.raw);
		if (more)
			pack_member(&reply->out, "next", next.raw);
	} else if (code == FILES_OK) {
		code = FILES_io;
	}
	reply->field = page.field;
	buf_finish(&page.out);
	return code;
}

static enum files_code
serve_read(const struct files_call *call, struct files_reply *reply)
{
	cleanup_free uint8_t *bytes = NULL;
	enum files_code code;
	uint64_t size;
	size_t n;

	code = files_read_bytes(call, reply, &bytes, &n, &size);
	if (code != FILES_OK)
		return code;
	pack_map(&reply->out, 2);
	pack_str(&reply->out, "content");
	pack_bin(&reply->out, bytes, n);
	pack_str(&reply->out, "size");
	pack_uint(&reply->out, size);
	return FILES_OK;
}

static enum files_code
serve_stat(const struct files_call *call, struct files_reply *reply)
{
	struct target t = { .dir = -1 };
	const struct stat *st = &t.old;
	int e = 0;

	if (call->path.n > 0)
		e = find(call->root, &call->path, &t);
	else if (fstat(call->root->fd, &t.old) < 0)
		e = -errno;
	else
		t.exists = true;
	util_close(&t.dir);
	if (e < 0 || !t.exists)
		return files_fail(reply, "path", e < 0 ? files_code_of(e) : FILES_not_found);
	pack_map(&reply->out, 4);
	pack_str(&reply->out, "name");
	pack_str(&reply->out, call->path.n > 0 ? t.leaf : "");
	pack_str(&reply->out, "type");
	pack_str(&reply->out, files_root_type(st->st_mode));
	pack_str(&reply->out, "size");
	pack_uint(&reply->out, S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0);
	pack_str(&reply->out, "modifiedAt");
	pack_int(&reply->out, (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000);
	return FILES_OK;
}

/* ---- changes ----------------------------------------------------------------------------- */

static enum files_code
pack_written(struct files_reply *reply, uint64_t size, bool created)
{
	pack_map(&reply->out, 2);
	pack_str(&reply->out, "size");
	pack_uint(&reply->out, size);
	pack_str(&reply->out, "created");
	pack_bool(&reply->out, created);
	return FILES_OK;
}

/* A new file takes the place of the old, as an agent's does. */
static enum files_code
replace(const struct files_call *call, struct files_reply *reply)
{
	struct files_call write = { .root = call->root, .path = call->path };
	struct files_reply done = { .field = NULL };
	struct value created = { .boolean = false };
	enum files_code code;

	write.args.has_text = true;
	write.args.text = call->args.content;
	code = files_write(&write, &done);
	if (code == FILES_OK && !done.out.failed)
		value_get((struct slice){ done.out.p, done.out.n }, "created", &created);
	buf_finish(&done.out);
	if (code != FILES_OK)
		return files_fail(reply, done.field, code);
	return pack_written(reply, call->args.content.n, created.boolean);
}

/* All of it behind the end, or the file is as it was. */
static int
append_to(int fd, struct slice content, uint64_t *ret_size)
{
	struct stat st;
	size_t used = 0;
	ssize_t put;
	int e = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENXIO;
	while (e == 0 && used < content.n) {
		put = write(fd, content.p + used, content.n - used);
		if (put > 0)
			used += (size_t)put;
		else if (put == 0 || errno != EINTR)
			e = put < 0 ? -errno : -ENOSPC;
	}
	if (e == 0 && fsync(fd) < 0)
		e = -errno;
	if (e < 0 && ftruncate(fd, st.st_size) < 0)
		return -EIO;
	*ret_size = (uint64_t)st.st_size + used;
	return e;
}

static enum files_code
append(const struct files_call *call, struct files_reply *reply)
{
	struct target t = { .dir = -1 };
	cleanup_fd int fd = -1;
	uint64_t size = 0;
	int e = target_open(call->root, &call->path, &t);

	if (e == 0)
		e = target_look(&t);
	if (e == 0 && t.exists && S_ISDIR(t.old.st_mode))
		e = -EISDIR;
	if (e == 0 && t.exists)
		e = fd = files_root_openat(
		    t.dir, t.leaf, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY, 0);
	if (fd >= 0)
		e = append_to(fd, call->args.content, &size);
	util_close(&t.dir);
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	return t.exists ? pack_written(reply, size, false) : replace(call, reply);
}

static enum files_code
serve_write(const struct files_call *call, struct files_reply *reply)
{
	if (call->path.n == 0)
		return files_fail(reply, "path", FILES_is_root);
	if (call->path.slash)
		return files_fail(reply, "path", FILES_invalid_tool_arguments);
	return call->args.append ? append(call, reply) : replace(call, reply);
}

static bool
is_directory(const struct files_root *root, const struct segments *path, size_t n)
{
	cleanup_fd int fd = files_root_dir(root, path, n, O_PATH);

	return fd >= 0;
}

static enum files_code
serve_mkdir(const struct files_call *call, struct files_reply *reply)
{
	struct files_call one = *call;
	struct files_reply made = { .field = NULL };
	enum files_code code = FILES_exists;

	if (call->path.n == 0 && !call->args.recursive)
		return files_fail(reply, "path", FILES_exists);
	for (one.path.n = call->args.recursive ? 1 : call->path.n; one.path.n <= call->path.n;
	     one.path.n++) {
		code = one.path.n == 0 ? FILES_exists : files_mkdir(&one, &made);
		buf_finish(&made.out);
		if (code == FILES_exists && call->args.recursive &&
		    is_directory(call->root, &call->path, one.path.n))
			continue;
		if (code != FILES_OK)
			return files_fail(reply, made.field, code);
	}
	return pack_answer(reply, "created", code == FILES_OK);
}

/* It is gone with the first step; what is in it follows.  Where there is no room for another
 * name it goes bit by bit, which makes some. */
static int
delete_tree(const struct target *t)
{
	const char *name = t->leaf;
	char temp[TARGET_TEMP_MAX];
	cleanup_fd int fd = -1;
	int e;

	target_temp(temp);
	/* A directory that is closed can still get another name beside its own. */
	if (renameat2(t->dir, t->leaf, t->dir, temp, RENAME_NOREPLACE) == 0)
		name = temp;
	else if (errno != EDQUOT && errno != ENOSPC)
		return -errno;
	if ((t->old.st_mode & 0700) != 0700 && fchmodat(t->dir, name, 0700, 0) < 0)
		return -errno;
	fd = files_root_openat(t->dir, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	e = empty_directory(fd);
	if (e < 0)
		return e;
	return unlinkat(t->dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int
delete_target(const struct target *t, bool recursive)
{
	int e;

	if (!S_ISDIR(t->old.st_mode))
		return unlinkat(t->dir, t->leaf, 0) < 0 ? -errno : 0;
	if (unlinkat(t->dir, t->leaf, AT_REMOVEDIR) == 0)
		return 0;
	e = errno == EEXIST ? -ENOTEMPTY : -errno;
	return e == -ENOTEMPTY && recursive ? delete_tree(t) : e;
}

static enum files_code
serve_delete(const struct files_call *call, struct files_reply *reply)
{
	struct target t = { .dir = -1 };
	int e;

	if (call->path.n == 0)
		return files_fail(reply, "path", FILES_is_root);
	e = find(call->root, &call->path, &t);
	if (e == 0 && !t.exists)
		e = -ENOENT;
	if (e == 0)
		e = delete_target(&t, call->args.recursive);
	if (e == 0)
		e = target_sync(&t);
	util_close(&t.dir);
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	pack_map(&reply->out, 1);
	pack_str(&reply->out, "type");
	pack_str(&reply->out, files_root_type(t.old.st_mode));
	return FILES_OK;
}

/* What stands at the new name gives way if neither is a directory. */
static int
move(const struct target *from, const struct target *to)
{
	if (!from->exists)
		return -ENOENT;
	if (to->exists && (S_ISDIR(from->old.st_mode) || S_ISDIR(to->old.st_mode)))
		return -EEXIST;
	if (to->exists && from->old.st_ino == to->old.st_ino &&
	    from->old.st_dev == to->old.st_dev)
		/* Of two names of one file rename() keeps both, and says that it is done. */
		return -EEXIST;
	if (renameat2(from->dir, from->leaf, to->dir, to->leaf,
		to->exists ? 0 : RENAME_NOREPLACE) < 0)
		return -errno;
	return 0;
}

static enum files_code
rename_both(const struct files_call *call, const struct segments *path, struct target *t,
    struct files_reply *reply)
{
	int e = find(call->root, &path[0], &t[0]);

	if (e < 0)
		return files_fail(reply, "from", files_code_of(e));
	e = find(call->root, &path[1], &t[1]);
	if (e == 0)
		e = move(&t[0], &t[1]);
	if (e == 0)
		e = target_sync(&t[1]);
	if (e == 0)
		e = target_sync(&t[0]);
	if (e < 0)
		return files_fail(reply, e == -ENOENT && !t[0].exists ? "from" : "to",
		    files_code_of(e));
	return pack_answer(reply, "replaced", t[1].exists);
}

static enum files_code
serve_rename(const struct files_call *call, struct files_reply *reply)
{
	struct segments path[2];
	struct target t[2] = { { .dir = -1 }, { .dir = -1 } };
	enum files_code code;

	if (segments_parse(call->args.from, &path[0]) < 0)
		return files_fail(reply, "from", FILES_invalid_tool_arguments);
	if (segments_parse(call->args.to, &path[1]) < 0)
		return files_fail(reply, "to", FILES_invalid_tool_arguments);
	if (path[0].n == 0 || path[1].n == 0)
		return files_fail(reply, path[0].n == 0 ? "from" : "to", FILES_is_root);
	code = rename_both(call, path, t, reply);
	util_close(&t[0].dir);
	util_close(&t[1].dir);
	return code;
}

/* ---- dispatch ---------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum files_code (*serve)(const struct files_call *call, struct files_reply *reply);
} tools[] = {
#define WORKSPACE_TOOL(id, name, args) { name, serve_##id },
#include "worker/files/workspace.def"
};

enum files_code
workspace_serve(struct files_root *root, struct slice tool, struct slice arguments,
    struct slice decided, struct files_reply *reply)
{
	struct files_call call = { .root = root };
	enum files_code code;
	size_t i = 0;

	while (i < countof(tools) && !slice_is(tool, tools[i].name))
		i++;
	if (i == countof(tools))
		return files_fail(reply, "tool", FILES_tool_unavailable);
	if (segments_unpack(decided, &call.path) < 0 || call.path.n > 0)
		return files_fail(reply, "path", FILES_invalid_tool_arguments);
	if (args_unpack(args_of(tools[i].name), arguments, &call.args, &reply->field) < 0)
		return FILES_invalid_tool_arguments;
	if (call.args.has_path && segments_parse(call.args.path, &call.path) < 0)
		return files_fail(reply, "path", FILES_invalid_tool_arguments);
	code = tools[i].serve(&call, reply);
	if (code == FILES_OK && reply->out.failed)
		code = files_fail(reply, "path", FILES_io);
	if (code != FILES_OK)
		buf_finish(&reply->out);
	return code;
}
