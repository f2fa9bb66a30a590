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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "common/base64.h"
#include "common/hex.h"
#include "common/util.h"
#include "common/walk.h"
#include "worker/files/text.h"

#define NEW_MODE	 0644
#define EXPECT_SIZE_MAX	 (256u << 20) /* bytes that one call hashes to check `expect` */
#define HASH_BLOCK_BYTES (64u << 10)
#define TEMP_NAME_MAX	 (sizeof(TEMP_PREFIX) + 16 + sizeof(TEMP_SUFFIX))

struct job {
	struct files_root *root;
	int dir; /* of the target */
	char leaf[SEGMENT_BYTES_MAX + 1];
	char temp[TEMP_NAME_MAX];
	bool create_only, expected;
	bool exists; /* when the call began */
	struct stat old; /* with exists */
	const uint8_t *data;
	size_t n;
};

static EVP_MD *sha256; /* fetched once, before the process confines itself */

int
files_init(void)
{
	if (sha256 == NULL)
		sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	return sha256 != NULL ? 0 : -ENOMEM;
}

static int
hash_bytes(const uint8_t *p, size_t n, char hex[2 * FILES_DIGEST + 1])
{
	uint8_t digest[FILES_DIGEST];

	if (files_init() < 0 || EVP_Digest(p, n, digest, NULL, sha256, NULL) != 1)
		return -ENOMEM;
	hex_encode(digest, sizeof(digest), hex);
	return 0;
}

static int
hash_stream(int fd, EVP_MD_CTX *ctx, uint8_t *block, char hex[2 * FILES_DIGEST + 1])
{
	uint8_t digest[FILES_DIGEST];
	uint64_t total = 0;
	ssize_t got;

	if (EVP_DigestInit_ex(ctx, sha256, NULL) != 1)
		return -ENOMEM;
	while ((got = read(fd, block, HASH_BLOCK_BYTES)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		total += (uint64_t)got;
		if (total > EXPECT_SIZE_MAX)
			return -E2BIG;
		if (EVP_DigestUpdate(ctx, block, (size_t)got) != 1)
			return -ENOMEM;
	}
	if (EVP_DigestFinal_ex(ctx, digest, NULL) != 1)
		return -ENOMEM;
	hex_encode(digest, sizeof(digest), hex);
	return 0;
}

static int
hash_file(int fd, char hex[2 * FILES_DIGEST + 1])
{
	cleanup_free uint8_t *block = malloc(HASH_BLOCK_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int e = -ENOMEM;

	if (files_init() == 0 && block != NULL && ctx != NULL)
		e = hash_stream(fd, ctx, block, hex);
	EVP_MD_CTX_free(ctx);
	return e;
}

/* Finds the target, and refuses what cannot be replaced. */
static int
find_target(const struct files_call *call, struct job *job)
{
	const struct segments *s = &call->path;
	int e;

	if (s->n == 0)
		return -EISDIR;
	job->dir = files_root_dir(call->root, s, s->n - 1, O_RDONLY);
	if (job->dir < 0)
		return job->dir;
	files_root_leaf(s, job->leaf);
	job->exists = fstatat(job->dir, job->leaf, &job->old, AT_SYMLINK_NOFOLLOW) == 0;
	if (!job->exists)
		return errno == ENOENT ? 0 : -errno;
	e = files_root_check(&job->old);
	return e < 0 ? e : job->create_only ? -EEXIST : 0;
}

/*
 * Conditional writes in one directory exclude each other, whichever providers serve them,
 * until job->dir is closed.  Never waits: a reader of the directory can hold this lock too,
 * and gets no more out of it than refusals.  Where there are no locks, what remains is
 * that the file is looked at again right before it is replaced.
 */
static bool
is_locked(const struct job *job)
{
	return flock(job->dir, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Is the old content what the caller believes it is?  From here on `old` is that file. */
static enum files_code
check_expected(const struct files_call *call, struct job *job, struct files_reply *reply)
{
	char hex[2 * FILES_DIGEST + 1];
	cleanup_fd int fd = -1;
	int e;

	if (!job->exists)
		return files_fail(reply, "path", FILES_not_found);
	fd = files_root_file(call->root, &call->path, &job->old);
	e = fd < 0 ? fd : hash_file(fd, hex);
	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	if (!slice_is(call->args.expect, hex))
		return files_fail(reply, "expect", FILES_changed);
	return FILES_OK;
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
	mode_t mode = job->exists ? job->old.st_mode & 0777 : NEW_MODE;
	int e = write_all(fd, job->data, job->n);

	if (e < 0)
		return e;
	if (fchmod(fd, mode) < 0)
		return -errno;
	/* EINVAL: the owner has no number in this user namespace, and we are its stand-in. */
	if (job->root->chown && fchown(fd, job->root->uid, job->root->gid) < 0 &&
	    errno != EINVAL)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

static bool
is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	    a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Gives the file at `temp` the target's name. */
static int
publish(const struct job *job)
{
	struct stat st;

	/* Somebody who asks no provider may have come since the digest was taken. */
	if (job->expected && (fstatat(job->dir, job->leaf, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_same(&st, &job->old)))
		return -ESTALE;
	if (!job->create_only)
		return renameat2(job->dir, job->temp, job->dir, job->leaf, 0) < 0 ? -errno : 0;
	if (renameat2(job->dir, job->temp, job->dir, job->leaf, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (linkat(job->dir, job->temp, job->dir, job->leaf, 0) < 0)
		return -errno;
	return unlinkat(job->dir, job->temp, 0) < 0 ? -errno : 0;
}

/* An unnamed file: gone with the provider until it is linked. */
static int
store_unnamed(struct job *job)
{
	cleanup_fd int fd = -1;
	const char *name = job->create_only ? job->leaf : job->temp;
	int e;

	fd = files_root_openat(job->dir, ".", O_TMPFILE | O_WRONLY, 0600);
	if (fd < 0)
		return fd == -EISDIR || fd == -EINVAL ? -EOPNOTSUPP : fd;
	if ((e = prepare(job, fd)) < 0)
		return e;
	if (linkat(fd, "", job->dir, name, AT_EMPTY_PATH) < 0)
		/* Kernels before 6.10 want a capability for this, and say ENOENT. */
		return errno == ENOENT || errno == EPERM ? -EOPNOTSUPP : -errno;
	if (job->create_only)
		return 0;
	e = publish(job);
	if (e < 0)
		unlinkat(job->dir, job->temp, 0);
	return e;
}

static int
store_named(struct job *job)
{
	cleanup_fd int fd = -1;
	int e;

	fd = files_root_openat(job->dir, job->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	e = prepare(job, fd);
	if (e == 0)
		e = publish(job);
	if (e < 0)
		unlinkat(job->dir, job->temp, 0);
	return e;
}

static int
store(struct job *job)
{
	uint8_t random[8];
	char hex[2 * sizeof(random) + 1];
	int e = -EOPNOTSUPP;

	arc4random_buf(random, sizeof(random));
	hex_encode(random, sizeof(random), hex);
	snprintf(job->temp, sizeof(job->temp), "%s%s%s", TEMP_PREFIX, hex, TEMP_SUFFIX);
	if (!job->root->named_temps)
		e = store_unnamed(job);
	if (e == -EOPNOTSUPP) {
		job->root->named_temps = true;
		e = store_named(job);
	}
	if (e == 0 && fsync(job->dir) < 0)
		e = -errno;
	return e;
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
	char hex[2 * FILES_DIGEST + 1];
	enum files_code code;
	int e = find_target(call, job);

	if (e < 0)
		return files_fail(reply, "path", files_code_of(e));
	if (job->expected && is_locked(job))
		return files_fail(reply, "expect", FILES_busy);
	if (job->expected && (code = check_expected(call, job, reply)) != FILES_OK)
		return code;
	if (hash_bytes(job->data, job->n, hex) < 0)
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
	pack_bool(&reply->out, !job->exists);
	pack_str(&reply->out, "complete");
	pack_bool(&reply->out, true);
	return FILES_OK;
}

static bool
is_hex(struct slice s)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return true;
}

enum files_code
files_write(const struct files_call *call, struct files_reply *reply)
{
	struct job job = { .root = call->root, .dir = -1 };
	cleanup_free uint8_t *decoded = NULL;
	enum files_code code;

	job.create_only = call->args.createOnly;
	job.expected = call->args.has_expect;
	if (call->path.slash)
		return files_fail(reply, "path", FILES_invalid_tool_arguments);
	if (job.expected && (job.create_only || !is_hex(call->args.expect)))
		return files_fail(reply, "expect", FILES_invalid_tool_arguments);
	code = take_content(&call->args, &job, &decoded, reply);
	if (code == FILES_OK)
		code = run(call, &job, reply);
	util_close(&job.dir);
	return code;
}
