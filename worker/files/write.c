/*
 * files.write: a whole new file takes the place of the old one in one step.
 *
 * The content goes into a file without a name, or where that cannot be had into one named
 * .caisson-<random>.tmp beside the target, is synced, and takes its place by link or
 * rename; then the directory is synced.  A provider that is killed leaves the old file or
 * the new, and at most a .caisson-*.tmp that no call can see.
 *
 * The new file keeps the permission bits of the old (not set-uid, set-gid, sticky, ACLs
 * or attributes), and belongs to the owner of the root.  A hard link is replaced in this
 * directory only: the other name keeps the old content.
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
#include "worker/files/digest.h"
#include "worker/files/target.h"

#define NEW_MODE 0644

struct job {
	struct files_root *root;
	struct target target;
	char temp[TARGET_TEMP_MAX];
	bool create_only;
	const uint8_t *data;
	size_t n;
};

/* Finds the target, and refuses what cannot be replaced. */
static int
find_target(const struct files_call *call, struct job *job)
{
	struct target *t = &job->target;
	int e;

	if (call->path.n == 0)
		return -EISDIR;
	e = target_open(call->root, &call->path, t);
	if (e == 0)
		e = target_look(t);
	if (e < 0 || !t->exists)
		return e;
	if (S_ISDIR(t->old.st_mode))
		return -EISDIR;
	return job->create_only ? -EEXIST : 0;
}

static int
write_all(int fd, const uint8_t *p, size_t n)
{
	size_t used = 0;
	ssize_t put;

	while (used < n) {
		put = pwrite(fd, p + used, n - used, (off_t)used);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -ENOSPC;
		used += (size_t)put;
	}
	return 0;
}

/* Content, mode and owner, on the disk, before anything has its name. */
static int
prepare(const struct job *job, int fd)
{
	mode_t mode = job->target.exists ? job->target.old.st_mode & 0777 : NEW_MODE;
	int e = write_all(fd, job->data, job->n);

	if (e < 0)
		return e;
	if (fchmod(fd, mode) < 0)
		return -errno;
	e = files_root_give(job->root, fd);
	return e < 0 ? e : fsync(fd) < 0 ? -errno : 0;
}

/* Gives the file at `temp` the target's name. */
static int
publish(const struct job *job)
{
	if (target_is_changed(&job->target))
		return -ESTALE;
	return target_take(&job->target, job->temp, !job->create_only);
}

/* An unnamed file: gone with the provider until it is linked. */
static int
store_unnamed(struct job *job)
{
	cleanup_fd int fd = -1;
	const char *name = job->create_only ? job->target.leaf : job->temp;
	int e;

	fd = files_root_openat(job->target.dir, ".", O_TMPFILE | O_WRONLY, 0600);
	if (fd < 0)
		return fd == -EISDIR || fd == -EINVAL ? -EOPNOTSUPP : fd;
	if ((e = prepare(job, fd)) < 0)
		return e;
	if (linkat(fd, "", job->target.dir, name, AT_EMPTY_PATH) < 0)
		/* Kernels before 6.10 want a capability for this, and say ENOENT. */
		return errno == ENOENT || errno == EPERM ? -EOPNOTSUPP : -errno;
	if (job->create_only)
		return 0;
	e = publish(job);
	if (e < 0)
		unlinkat(job->target.dir, job->temp, 0);
	return e;
}

static int
store_named(struct job *job)
{
	cleanup_fd int fd = -1;
	int e;

	fd = files_root_openat(
	    job->target.dir, job->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	e = prepare(job, fd);
	if (e == 0)
		e = publish(job);
	if (e < 0)
		unlinkat(job->target.dir, job->temp, 0);
	return e;
}

static int
store(struct job *job)
{
	int e = -EOPNOTSUPP;

	target_temp(job->temp);
	if (!job->root->named_temps)
		e = store_unnamed(job);
	if (e == -EOPNOTSUPP) {
		job->root->named_temps = true;
		e = store_named(job);
	}
	return e < 0 ? e : target_sync(&job->target);
}

/* The content: exactly one of text and base64. */
static enum files_code
take_content(const struct files_args *args, struct job *job, uint8_t **ret_decoded,
    struct files_reply *reply)
{
	if (args->has_text == args->has_base64)
		return files_fail(reply, "text", FILES_invalid_tool_arguments);
	job->data = args->text.p;
	job->n = args->text.n;
	if (args->has_text)
		return FILES_OK;
	*ret_decoded = malloc(args->base64.n / 4 * 3 + 1);
	if (*ret_decoded == NULL)
		return files_fail(reply, "base64", FILES_io);
	job->data = *ret_decoded;
	if (base64_decode(args->base64.p, args->base64.n, *ret_decoded, &job->n) < 0)
		return files_fail(reply, "base64", FILES_invalid_tool_arguments);
	return FILES_OK;
}

static enum files_code
run(const struct files_call *call, struct job *job, struct files_reply *reply)
{
	char hex[DIGEST_TEXT];
	enum files_code code;
	int e = find_target(call, job);

	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	if (call->args.has_expect) {
		code = target_expect(&job->target, call->args.expect, reply);
		if (code != FILES_OK)
			return code;
	}
	if (digest_bytes(job->data, job->n, hex) < 0)
		return files_fail(reply, "text", FILES_io);
	e = store(job);
	if (e == -ESTALE)
		return files_fail(reply, "expect", FILES_changed);
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	pack_map(&reply->out, 4);
	pack_str(&reply->out, "size");
	pack_uint(&reply->out, job->n);
	pack_str(&reply->out, "sha256");
	pack_str(&reply->out, hex);
	pack_str(&reply->out, "created");
	pack_bool(&reply->out, !job->target.exists);
	pack_str(&reply->out, "complete");
	pack_bool(&reply->out, true);
	return FILES_OK;
}

enum files_code
files_write(const struct files_call *call, struct files_reply *reply)
{
	struct job job = { .root = call->root, .target.dir = -1 };
	cleanup_free uint8_t *decoded = NULL;
	enum files_code code;

	job.create_only = call->args.createOnly;
	if (call->path.slash)
		return files_fail(reply, "path", FILES_invalid_tool_arguments);
	if (call->args.has_expect && job.create_only)
		return files_fail(reply, "expect", FILES_invalid_tool_arguments);
	code = take_content(&call->args, &job, &decoded, reply);
	if (code == FILES_OK)
		code = run(call, &job, reply);
	util_close(&job.target.dir);
	return code;
}
