#include "supervisor/quota.h"

#include <errno.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervisor/uid.h"

#define TRIES 64

/* Unlike quotactl(), it needs no name of a device. */
static int
control(int fd, unsigned command, uint32_t project, void *data)
{
	return syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), project, data) < 0 ? -errno
											 : 0;
}

/* How many files have it. */
static int
count_files(int fd, uint32_t project, uint64_t *ret)
{
	struct if_dqblk d = { 0 };
	int r = control(fd, Q_GETQUOTA, project, &d);

	if (r == -ENOENT) /* XFS has no entry for what was never used */
		r = 0;
	*ret = d.dqb_curinodes;
	return r;
}

int
quota_probe(int fd)
{
	struct fs_quota_statv v = { .qs_version = FS_QSTATV_VERSION1 };
	uint64_t files;
	int r;

	if (!uid_is_root())
		return -EPERM;
	r = control(fd, Q_XGETQSTATV, 0, &v);
	if (r == -ENOSYS || r == -ENOTTY || r == -EINVAL)
		return -EOPNOTSUPP;
	if (r < 0)
		return r;
	if ((v.qs_flags & FS_QUOTA_PDQ_ACCT) == 0)
		return -EOPNOTSUPP;
	if ((v.qs_flags & FS_QUOTA_PDQ_ENFD) == 0)
		return -ESRCH;
	return count_files(fd, QUOTA_PROJECT_FIRST, &files);
}

const char *
quota_remedy(int error)
{
	switch (error) {
	case -EPERM: return "run caissond as root, outside of user namespaces";
	case -ESRCH: return "mount it with -o prjquota";
	case -EOPNOTSUPP:
		return "put the state directory on ext4 (mkfs.ext4 -O quota,project) or XFS, mounted "
		       "with -o prjquota, with Linux 5.14 or newer";
	default: return "see whether its quotas are whole (quotacheck)";
	}
}

/* What is made beneath a directory has it, too. */
static int
give(int fd, uint32_t project)
{
	struct fsxattr x;
	struct stat st;

	if (fstat(fd, &st) < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
		return -errno;
	x.fsx_projid = project;
	if (S_ISDIR(st.st_mode))
		x.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	return ioctl(fd, FS_IOC_FSSETXATTR, &x) < 0 ? -errno : 0;
}

/* Another for each try, so that two who are after the same one part (the step is odd). */
static uint32_t
nth_project(uint64_t seed, unsigned n)
{
	uint64_t step = (seed >> 32) | 1;

	return QUOTA_PROJECT_FIRST + (uint32_t)((seed + n * step) % QUOTA_PROJECT_COUNT);
}

/*
 * Another daemon may be after the same one: it is ours if, once it is given, nothing else has
 * it.  If both see the other both go on; and a bound is set by who has it.
 */
int
quota_claim(int fd, uint64_t seed, uint64_t bytes, uint32_t *ret_project)
{
	uint32_t project;
	uint64_t files;
	unsigned i;
	int r;

	for (i = 0; i < TRIES; i++) {
		project = nth_project(seed, i);
		r = count_files(fd, project, &files);
		if (r == 0 && files > 0)
			continue;
		if (r < 0 || (r = give(fd, project)) < 0 ||
		    (r = count_files(fd, project, &files)) < 0)
			return r;
		if (files == 0) /* it is taken and not counted */
			return -ESRCH;
		if (files == 1) {
			*ret_project = project;
			return quota_bound(fd, project, bytes);
		}
	}
	return -EAGAIN;
}

uint32_t
quota_project(int fd)
{
	struct fsxattr x;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0 ||
	    x.fsx_projid - QUOTA_PROJECT_FIRST >= QUOTA_PROJECT_COUNT)
		return QUOTA_PROJECT_NONE;
	return x.fsx_projid;
}

int
quota_bound(int fd, uint32_t project, uint64_t bytes)
{
	struct if_dqblk d = {
		.dqb_bhardlimit = bytes / QIF_DQBLKSIZE + (bytes % QIF_DQBLKSIZE != 0),
		.dqb_ihardlimit = bytes ? QUOTA_FILES_MIN + bytes / QUOTA_BYTES_PER_FILE : 0,
		.dqb_valid = QIF_LIMITS,
	};

	return control(fd, Q_SETQUOTA, project, &d);
}
