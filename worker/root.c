#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "worker/kernel.h"
#include "worker/stop.h"
#include "worker/text.h"
#include "worker/worker.h"

/* The root holds directories, links and a few small files, then is made read-only. */
#define ROOT_BYTES  (1u << 20)
#define ROOT_INODES 512u

static int
fs_mount(int fs, enum layer layer, unsigned attr)
{
	int mnt;

	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		die(layer, errno);
	mnt = fsmount(fs, FSMOUNT_CLOEXEC, attr);
	if (mnt < 0)
		die(layer, errno);
	return mnt;
}

static int
tmpfs_create(uint64_t size_bytes, uint64_t inodes, const char *mode, unsigned attr)
{
	cleanup_fd int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	char size[32], nr[32];
	struct text ts = TEXT(size), tn = TEXT(nr);

	text_add_number(&ts, size_bytes);
	text_add_number(&tn, inodes);
	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", nr, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", mode, 0) < 0)
		die(LAYER_MOUNTS, errno);
	return fs_mount(fs, LAYER_MOUNTS, attr | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int
proc_mount(int fs, unsigned attr)
{
	if (fs < 0)
		die(LAYER_PROC, errno);
	return fs_mount(fs, LAYER_PROC,
	    attr | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

int
root_proc(unsigned attr)
{
	cleanup_fd int fs = fsopen("proc", FSOPEN_CLOEXEC);

	return proc_mount(fs, attr);
}

/*
 * The directory of `path` beneath `root`, made where it is missing, and its last
 * name in `*ret_name`.  Component by component and following no link: a chamber
 * may have left one in a directory that it can write.
 */
static int
target_parent(int root, const char *path, const char **ret_name)
{
	char name[256];
	int dir = root, next;
	const char *end;
	size_t n;

	for (;; path = end) {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		end = path + n;
		if (n == 0 || n >= sizeof(name))
			die(LAYER_MOUNTS, EINVAL);
		memcpy(name, path, n);
		name[n] = '\0';
		if (strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
			die(LAYER_MOUNTS, EINVAL);
		if (end[strspn(end, "/")] == '\0')
			break;
		if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
			die(LAYER_MOUNTS, errno);
		next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			die(LAYER_MOUNTS, errno);
		if (dir != root)
			close(dir);
		dir = next;
	}
	*ret_name = path;
	return dir;
}

static void
make_file(int dir, const char *name, const char *content)
{
	cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	size_t n = strlen(content);

	if (fd < 0 || write(fd, content, n) != (ssize_t)n)
		die(LAYER_MOUNTS, errno);
}

/* A place for `tree` to be mounted on: what is there, or an empty one of its kind. */
static void
attach(int dir, const char *name, int tree)
{
	cleanup_fd int at = -1;
	struct stat st;

	if (fstat(tree, &st) < 0)
		die(LAYER_MOUNTS, errno);
	if (S_ISDIR(st.st_mode) ? mkdirat(dir, name, 0755) < 0 :
				  mknodat(dir, name, S_IFREG | 0444, 0) < 0)
		if (errno != EEXIST)
			die(LAYER_MOUNTS, errno);
	at = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0 ||
	    move_mount(tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		die(LAYER_MOUNTS, errno);
	close(tree);
}

static void
step_apply(const struct plan *p, const struct plan_step *s, int root, int tree)
{
	const char *source = plan_string(p, s->source), *name;
	int dir = target_parent(root, plan_string(p, s->target), &name);

	switch (s->op) {
	case PLAN_DIR:
		if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
			die(LAYER_MOUNTS, errno);
		break;
	case PLAN_FILE:
		make_file(dir, name, source);
		break;
	case PLAN_SYMLINK:
		if (symlinkat(source, dir, name) < 0)
			die(LAYER_MOUNTS, errno);
		break;
	default:
		attach(dir, name, tree);
		break;
	}
	if (dir != root)
		close(dir);
}

/* The place of what pid 1 will mount: a directory, or a file for a file. */
static void
place_make(const struct plan *p, const struct plan_step *s, int root, int tree, int proc)
{
	struct stat st = { .st_mode = S_IFDIR };
	const char *name;
	int dir;

	if (s->op == PLAN_PROC) {
		step_apply(p, s, root, proc);
		return;
	}
	if (tree >= 0 && fstat(tree, &st) < 0)
		die(LAYER_MOUNTS, errno);
	dir = target_parent(root, plan_string(p, s->target), &name);
	if (S_ISDIR(st.st_mode) ? mkdirat(dir, name, 0755) < 0 :
				  mknodat(dir, name, S_IFREG | 0444, 0) < 0)
		if (errno != EEXIST)
			die(LAYER_MOUNTS, errno);
	if (dir != root)
		close(dir);
}

/* After this nothing of the host's tree can be named. */
static void
root_enter(int root)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	STOP_POINT("launch.before_pivot");
	if (fchdir(root) < 0 || kernel_pivot_root(".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		die(LAYER_PIVOT_ROOT, errno);
	if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
		die(LAYER_MOUNTS, errno);
	STOP_POINT("launch.after_pivot");
}

void
root_build(const struct plan *p, const int *trees)
{
	cleanup_fd int mnt = tmpfs_create(ROOT_BYTES, ROOT_INODES, "0755", 0);
	cleanup_fd int root = -1;
	int proc = -1;

	/* The kernel grants pid 1 its proc only where a whole one can be seen, and this one
	 * only while the host's can.  It has nobody in it, and pid 1's hides it. */
	for (uint32_t i = 0; i < p->h->nsteps && proc < 0; i++)
		if (p->steps[i].op == PLAN_PROC)
			proc = ground_proc();
	umask(0);
	/* Every host has this directory, and nothing needs it from here on: what is still read
	 * of /proc has a descriptor. */
	if (move_mount(mnt, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		die(LAYER_MOUNTS, errno);
	root = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		die(LAYER_MOUNTS, errno);
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		if (p->steps[i].op == PLAN_CGROUP || p->steps[i].op == PLAN_CGROUP_INTO)
			continue;
		if (p->steps[i].access & PLAN_PRIVATE)
			place_make(p, &p->steps[i], root, trees[i], proc);
		else
			step_apply(p, &p->steps[i], root, trees[i]);
	}
	umask(022);
	root_enter(root);
}

/*
 * One call where the mount calls of today need six.  Its place was made with the root; a link
 * that a chamber may have left there, below something that it can write, is not followed.
 */
static void
mount_here(const struct plan *p, const struct plan_step *s)
{
	cleanup_fd int at = kernel_openat2(AT_FDCWD, plan_string(p, s->target),
	    O_PATH | O_DIRECTORY | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
	enum layer layer = s->op == PLAN_PROC ? LAYER_PROC : LAYER_MOUNTS;
	unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	char options[128];
	struct text t = TEXT(options);
	const char *type = "tmpfs";

	if (at < 0 || fchdir(at) < 0)
		die(layer, errno);
	if (s->op == PLAN_PROC) {
		/* Only this namespace's processes, and of those only what the reader may trace.
		 * Read-only, so that modes in it stay as they are. */
		type = "proc";
		flags |= MS_RDONLY;
		text_add_string(&t, "subset=pid,hidepid=2");
	} else {
		text_add_string(&t, "mode=1777,size=");
		text_add_number(&t, s->size_bytes);
		text_add_string(&t, ",nr_inodes=");
		text_add_number(&t, s->inodes);
	}
	if (mount(type, ".", type, flags, options) < 0)
		die(layer, errno);
	layer_applied(layer, 1);
}

void
root_complete_proc(const struct plan *p)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (p->steps[i].op == PLAN_PROC)
			mount_here(p, &p->steps[i]);
	if (chdir("/") < 0)
		die(LAYER_PROC, errno);
}

void
root_complete(const struct plan *p, const int *trees)
{
	cleanup_fd int root = kernel_open_path("/", O_DIRECTORY);

	if (root < 0)
		die(LAYER_MOUNTS, errno);
	umask(0);
	STOP_POINT("init.before_mounts");
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		const struct plan_step *s = &p->steps[i];

		if ((s->access & PLAN_PRIVATE) == 0 || s->op == PLAN_PROC)
			continue;
		if (s->op == PLAN_BIND)
			step_apply(p, s, root, trees[i]);
		else
			mount_here(p, s);
	}
	umask(022);
	if (fchdir(root) < 0)
		die(LAYER_PIVOT_ROOT, errno);
	layer_applied(LAYER_MOUNTS, 1);
	layer_applied(LAYER_PIVOT_ROOT, 1);
	STOP_POINT("init.after_mounts");
}
