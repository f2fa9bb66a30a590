#include "supervisor/uid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"

#define UID_DIR_PARENT "/run/caisson"
#define UID_DIR	       UID_DIR_PARENT "/uid"

static bool
map_is_whole(void)
{
	unsigned long long inside, outside, count;
	bool whole = false;
	FILE *f = fopen("/proc/self/uid_map", "re");

	/* Who cannot tell is root: the chamber gets a uid of its own then, or is refused. */
	if (f == NULL)
		return true;
	while (fscanf(f, "%llu %llu %llu", &inside, &outside, &count) == 3)
		whole = whole || count > 1;
	whole = whole || ferror(f);
	fclose(f);
	return whole;
}

/* Whoever is root has a map, and a map is written once: each process looks at it once. */
bool
uid_is_root(void)
{
	static pid_t looked;
	static bool whole;

	if (geteuid() != 0)
		return false;
	if (looked != getpid()) {
		whole = map_is_whole();
		looked = getpid();
	}
	return whole;
}

static int
lock_one(int dir, uid_t uid)
{
	cleanup_fd int fd = -1;
	char name[16];

	snprintf(name, sizeof(name), "%u", uid);
	fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return steal_fd(&fd);
}

/*
 * Those of the range that this process holds, by their last 16 bits: they need no look at their
 * locks, which are what counts.  A thousand chambers would make each claim a thousand calls.
 */
static uint64_t held[(1u << 16) / 64];

static bool
is_held(uid_t uid)
{
	return held[(uid & 0xffff) / 64] >> uid % 64 & 1;
}

static void
set_held(uid_t uid, bool on)
{
	uint64_t bit = 1ull << uid % 64, *word = &held[(uid & 0xffff) / 64];

	*word = on ? *word | bit : *word & ~bit;
}

static int
claim_in(const char *path, const struct uid_range *range, bool skip, struct uid_claim *ret)
{
	cleanup_fd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (range->count == 0 || range->first == 0 || range->first > UINT32_MAX - range->count)
		return -EINVAL;
	if (dir < 0)
		return -errno;
	for (unsigned i = 0; i < range->count; i++) {
		if (skip && is_held(range->first + i))
			continue;
		fd = lock_one(dir, range->first + i);
		if (fd == -EWOULDBLOCK)
			continue;
		if (fd < 0)
			return fd;
		ret->uid = range->first + i;
		ret->lock_fd = fd;
		return 0;
	}
	return -EAGAIN;
}

int
uid_claim_in(const char *path, const struct uid_range *range, struct uid_claim *ret)
{
	return claim_in(path, range, false, ret);
}

int
uid_claim(const struct uid_range *range, struct uid_claim *ret)
{
	int r;

	if (mkdir(UID_DIR_PARENT, 0755) == 0)
		/* sockets lie there: whatever the umask says */
		(void)chmod(UID_DIR_PARENT, 0755);
	else if (errno != EEXIST)
		return -errno;
	if (mkdir(UID_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	r = claim_in(UID_DIR, range, true, ret);
	if (r == 0)
		set_held(ret->uid, true);
	return r;
}

void
uid_release(struct uid_claim *claim)
{
	if (claim->lock_fd >= 0) {
		set_held(claim->uid, false);
		close(claim->lock_fd);
	}
	*claim = UID_CLAIM_NONE;
}
