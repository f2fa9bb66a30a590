#include "ledger/head.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/hex.h"
#include "common/util.h"

#define HEAD_MAX   192 /* bytes of the line, NUL included */
#define HEAD_DRAFT HEAD_FILE ".new"

static int
format(char line[HEAD_MAX], const struct position *at)
{
	char hex[2 * JOURNAL_HASH + 1];

	hex_encode(at->hash, JOURNAL_HASH, hex);
	return snprintf(line, HEAD_MAX,
	    "caisson-head 1 %" PRIu64 " %s %" PRIu64 " %" PRIu64 "\n", at->count, hex,
	    at->segment, at->offset);
}

int
head_read(int dir_fd, struct position *ret)
{
	cleanup_fd int fd = -1;
	char line[HEAD_MAX], again[HEAD_MAX], hex[2 * JOURNAL_HASH + 1];
	struct position at = { 0 };
	ssize_t n;

	fd = openat(dir_fd, HEAD_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, line, sizeof(line) - 1);
	if (n < 0)
		return -errno;
	line[n] = '\0';
	if (sscanf(line, "caisson-head 1 %" SCNu64 " %64s %" SCNu64 " %" SCNu64, &at.count, hex,
		&at.segment, &at.offset) != 4 ||
	    !hex_decode(hex, at.hash, JOURNAL_HASH))
		return -EBADMSG;
	/* Only what we would have written ourselves is a head. */
	format(again, &at);
	if (strcmp(line, again) != 0)
		return -EBADMSG;
	*ret = at;
	return 0;
}

static int
write_draft(int dir_fd, const char *line, size_t n)
{
	cleanup_fd int fd = -1;
	ssize_t got;

	fd = openat(
	    dir_fd, HEAD_DRAFT, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	got = write(fd, line, n);
	if (got < 0)
		return -errno;
	if ((size_t)got != n)
		return -ENOSPC;
	return fsync(fd) < 0 ? -errno : 0;
}

int
head_write(int dir_fd, const struct position *at)
{
	char line[HEAD_MAX];
	int n, ret;

	n = format(line, at);
	ret = write_draft(dir_fd, line, (size_t)n);
	if (ret == 0 && renameat(dir_fd, HEAD_DRAFT, dir_fd, HEAD_FILE) < 0)
		ret = -errno;
	if (ret < 0) {
		unlinkat(dir_fd, HEAD_DRAFT, 0);
		return ret;
	}
	return fsync(dir_fd) < 0 ? -errno : 0;
}
