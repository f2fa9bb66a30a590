/*
 * files.delete, files.rename and files.mkdir: changes to the names of one directory.
 *
 * Like every tool they are for files and directories: a link, a FIFO or a device is
 * refused, and stays.  A name that turns into one between the look and the change is
 * deleted or renamed itself; what it points to is never touched.  Each change is one step
 * of the file system's and is synced before it is answered.
 */
#include "worker/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/files/target.h"

#define NEW_DIRECTORY_MODE 0755

static void
pack_done(struct buf *out, const char *key, const char *text)
{
	pack_map(out, 2);
	pack_str(out, key);
	pack_str(out, text);
	pack_str(out, "complete");
	pack_bool(out, true);
}

/* ---- delete ----------------------------------------------------------------------------- */

/* A directory is empty if nothing stands in it: names that no call can see count, too. */
static int
delete_target(const struct target *t)
{
	bool directory = S_ISDIR(t->old.st_mode);

	if (target_is_changed(t))
		return -ESTALE;
	if (unlinkat(t->dir, t->leaf, directory ? AT_REMOVEDIR : 0) < 0)
		/* POSIX lets a file system say either. */
		return directory && errno == EEXIST ? -ENOTEMPTY : -errno;
	return target_sync(t);
}

static enum files_code
delete(const struct files_call *call, struct target *t, struct files_reply *reply)
{
	enum files_code code;
	int e = target_open(call->root, &call->path, t);

	if (e == 0)
		e = target_look(t);
	if (e == 0 && !t->exists)
		e = -ENOENT;
	if (e == 0 && call->path.slash && !S_ISDIR(t->old.st_mode))
		e = -ENOTDIR;
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	if (call->args.has_expect) {
		code = target_expect(t, call->args.expect, reply);
		if (code != FILES_OK)
			return code;
	}
	e = delete_target(t);
	if (e == -ESTALE)
		return files_fail(reply, "expect", FILES_changed);
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	pack_done(&reply->out, "type", files_root_type(t->old.st_mode));
	return FILES_OK;
}

enum files_code
files_delete(const struct files_call *call, struct files_reply *reply)
{
	struct target t = { .dir = -1 };
	enum files_code code;

	if (call->path.n == 0)
		return files_fail(reply, "path", FILES_is_root);
	code = delete(call, &t, reply);
	util_close(&t.dir);
	return code;
}

/* ---- rename ----------------------------------------------------------------------------- */

/* One name within the directory. */
static bool
take_name(struct slice name, struct target *t)
{
	if (!segments_is_name(name.p, name.n))
		return false;
	memcpy(t->leaf, name.p, name.n);
	t->leaf[name.n] = '\0';
	return true;
}

/* A file can take the place of a file; nothing else takes or gives a place. */
static int
check_place(const struct target *from, const struct target *to, bool replace)
{
	if (!to->exists)
		return 0;
	if (!replace)
		return -EEXIST;
	return S_ISDIR(from->old.st_mode) || S_ISDIR(to->old.st_mode) ? -EISDIR : 0;
}

static int
rename_target(const struct target *from, const struct target *to, bool replace)
{
	int e;

	if (target_is_changed(to))
		return -ESTALE;
	/* Of two names of one file rename() keeps both, and says that it is done. */
	if (to->exists && from->old.st_ino == to->old.st_ino &&
	    from->old.st_dev == to->old.st_dev)
		e = unlinkat(from->dir, from->leaf, 0) < 0 ? -errno : 0;
	else
		e = target_take(to, from->leaf, replace);
	return e < 0 ? e : target_sync(to);
}

/* The code of a failure of either name. */
static enum files_code
fail_rename(struct files_reply *reply, const char *field, int e)
{
	if (e == -ESTALE)
		return files_fail(reply, "expect", FILES_changed);
	/* Not openat2's, for which it is a link that leads out. */
	return files_fail(reply, field, e == -EXDEV ? FILES_other_device : files_code_of(e));
}

static enum files_code
rename_in(const struct files_call *call, struct target *from, struct target *to,
    struct files_reply *reply)
{
	const struct files_args *args = &call->args;
	enum files_code code;
	int e = target_look(from);

	if (e < 0 || !from->exists)
		return files_fail(reply, "from", e < 0 ? files_code_of(e) : FILES_not_found);
	e = target_look(to);
	if (e == 0)
		e = check_place(from, to, args->replace);
	if (e < 0)
		return files_fail(reply, "to", files_code_of(e));
	if (args->has_expect) {
		code = target_expect(to, args->expect, reply);
		if (code != FILES_OK)
			return code;
	}
	e = rename_target(from, to, args->replace);
	if (e < 0)
		return fail_rename(reply, e == -ENOENT ? "from" : "to", e);
	pack_map(&reply->out, 3);
	pack_str(&reply->out, "type");
	pack_str(&reply->out, files_root_type(from->old.st_mode));
	pack_str(&reply->out, "replaced");
	pack_bool(&reply->out, to->exists);
	pack_str(&reply->out, "complete");
	pack_bool(&reply->out, true);
	return FILES_OK;
}

enum files_code
files_rename(const struct files_call *call, struct files_reply *reply)
{
	const struct files_args *args = &call->args;
	struct target from = { .dir = -1 }, to = { .dir = -1 };
	cleanup_fd int dir = -1;

	if (!take_name(args->from, &from))
		return files_fail(reply, "from", FILES_invalid_tool_arguments);
	if (!take_name(args->to, &to) || strcmp(from.leaf, to.leaf) == 0)
		return files_fail(reply, "to", FILES_invalid_tool_arguments);
	if (args->has_expect && !args->replace)
		return files_fail(reply, "expect", FILES_invalid_tool_arguments);
	dir = files_root_dir(call->root, &call->path, call->path.n, O_RDONLY);
	if (dir < 0)
		return files_fail(reply, "path", files_code_of(dir));
	from.dir = to.dir = dir;
	return rename_in(call, &from, &to, reply);
}

/* ---- mkdir ------------------------------------------------------------------------------ */

/* Made under a name that no call can see, so that it appears with its mode and owner. */
static int
make(const struct files_root *root, const struct target *t, const char *temp)
{
	cleanup_fd int fd = files_root_openat(t->dir, temp, O_RDONLY | O_DIRECTORY, 0);
	int e;

	if (fd < 0)
		return fd;
	e = files_root_give(root, fd);
	if (e < 0)
		return e;
	if (fchmod(fd, NEW_DIRECTORY_MODE) < 0 || fsync(fd) < 0)
		return -errno;
	return target_take(t, temp, false);
}

static int
make_directory(const struct files_call *call, struct target *t)
{
	char temp[TARGET_TEMP_MAX];
	int e = target_open(call->root, &call->path, t);

	if (e == 0)
		e = target_look(t);
	if (e < 0 || t->exists)
		return e < 0 ? e : -EEXIST;
	target_temp(temp);
	if (mkdirat(t->dir, temp, 0700) < 0)
		return -errno;
	e = make(call->root, t, temp);
	if (e < 0)
		unlinkat(t->dir, temp, AT_REMOVEDIR);
	return e < 0 ? e : target_sync(t);
}

enum files_code
files_mkdir(const struct files_call *call, struct files_reply *reply)
{
	struct target t = { .dir = -1 };
	int e;

	if (call->path.n == 0)
		return files_fail(reply, "path", FILES_exists);
	e = make_directory(call, &t);
	util_close(&t.dir);
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	pack_done(&reply->out, "type", "directory");
	return FILES_OK;
}
