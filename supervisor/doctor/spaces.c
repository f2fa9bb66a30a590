/* Probes of namespaces and of the root that is built in them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <netinet/in.h>

#include "common/util.h"
#include "supervisor/doctor/probe.h"
#include "supervisor/mapping.h"
#include "supervisor/uid.h"
#include "worker/kernel.h"
#include "worker/plan.h"

#define TMPFS_BYTES 65536

/* ---- namespaces ---- */

void
probe_clone3(struct doctor_finding *f)
{
	int pidfd = -1;
	struct clone_args a = { .flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD };
	pid_t pid = kernel_clone3(&a);

	if (pid == 0)
		_exit(7);
	if (pid < 0) {
		probe_no(f, errno, "clone3: %s", strerror(errno));
		return;
	}
	if (WEXITSTATUS(probe_wait(pid)) == 7 && pidfd >= 0)
		probe_yes(f, "with a pidfd");
	else
		probe_no(f, 0, "the child or its pidfd is not as it should be");
}

static void
in_user(struct doctor_finding *f)
{
	char text[64];

	if (getuid() != PLAN_INSIDE_UID || getgid() != PLAN_INSIDE_GID)
		probe_no(f, 0, "uid %u inside, not %u", getuid(), PLAN_INSIDE_UID);
	else if (probe_read("/proc/self/uid_map", text, sizeof(text)) < 0)
		probe_no(f, errno, "/proc/self/uid_map cannot be read");
	else
		probe_yes(f, "uid %u inside", getuid());
}

void
probe_user_namespace(struct doctor_finding *f)
{
	probe_chamber(f, 0, in_user);
}

static void
in_nested(struct doctor_finding *f)
{
	static const char path[] = "/proc/sys/user/max_user_namespaces";
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	struct clone_args a = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	pid_t pid;

	if (fd < 0 || write(fd, "0", 1) != 1) {
		probe_no(f, errno, "%s: %s", path, strerror(errno));
		return;
	}
	pid = kernel_clone3(&a);
	if (pid == 0)
		_exit(0);
	if (pid > 0) {
		probe_wait(pid);
		probe_no(f, 0, "max_user_namespaces is 0 there, and one can be made");
	} else {
		probe_yes(f, "max_user_namespaces 0: %s", strerrorname_np(errno));
	}
}

void
probe_nested_off(struct doctor_finding *f)
{
	probe_chamber(f, 0, in_nested);
}

static void
in_pid(struct doctor_finding *f)
{
	if (getpid() == 1)
		probe_yes(f, "pid 1 inside");
	else
		probe_no(f, 0, "pid %d inside, not 1", (int)getpid());
}

void
probe_pid_namespace(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWPID, in_pid);
}

static void
in_mount(struct doctor_finding *f)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		probe_no(f, errno, "mount: %s", strerror(errno));
	else
		probe_yes(f, "private");
}

void
probe_mount_namespace(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWNS, in_mount);
}

static void
in_net(struct doctor_finding *f)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons(9),
		.sin_addr.s_addr = htonl(0xc0000201) }; /* an address for examples */
	cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* No IPv4 at all is as good. */
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		probe_no(f, 0, "there is a way out of the new namespace");
	else
		probe_yes(f, "no way out: %s", strerrorname_np(errno));
}

void
probe_net_namespace(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWNET, in_net);
}

static void
in_ipc(struct doctor_finding *f)
{
	probe_yes(f, "empty");
}

void
probe_ipc_namespace(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWIPC, in_ipc);
}

static void
in_uts(struct doctor_finding *f)
{
	static const char name[] = "caisson-doctor";
	struct utsname u;

	if (sethostname(name, sizeof(name) - 1) < 0)
		probe_no(f, errno, "sethostname: %s", strerror(errno));
	else if (uname(&u) < 0 || strcmp(u.nodename, name) != 0)
		probe_no(f, 0, "the name given is not the name had");
	else
		probe_yes(f, "a name of its own");
}

void
probe_uts_namespace(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWUTS, in_uts);
}

static void
in_cgroup(struct doctor_finding *f)
{
	char text[256];

	if (probe_read("/proc/self/cgroup", text, sizeof(text)) < 0)
		probe_no(f, errno, "/proc/self/cgroup: %s", strerror(errno));
	else
		probe_yes(f, "its own group is the root it sees");
}

void
probe_cgroup_namespace(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWCGROUP, in_cgroup);
}

static void
in_time(struct doctor_finding *f)
{
	/* Whoever asks gets it for his children. */
	if (unshare(CLONE_NEWTIME) < 0)
		probe_no(f, errno, "unshare: %s", strerror(errno));
	else
		probe_yes(f, "clocks of its own");
}

void
probe_time_namespace(struct doctor_finding *f)
{
	probe_chamber(f, 0, in_time);
}

/* ---- the root ---- */

/* A mounted tmpfs of TMPFS_BYTES that hangs nowhere; -1 with errno and `*ret_call`. */
static int
make_tmpfs(const char **ret_call)
{
	cleanup_fd int fs = -1;

	*ret_call = "fsopen";
	fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -1;
	*ret_call = "fsconfig";
	if (fsconfig(fs, FSCONFIG_SET_STRING, "size", "65536", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	*ret_call = "fsmount";
	return fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int
clone_tree(const char *path, const char **ret_call)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					       MOUNT_ATTR_NODEV };
	cleanup_fd int tree = -1;

	*ret_call = "open_tree";
	tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree < 0)
		return -1;
	*ret_call = "mount_setattr";
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return -1;
	return steal_fd(&tree);
}

static void
in_mount_api(struct doctor_finding *f)
{
	cleanup_fd int fs = -1, tree = -1;
	const char *call;

	fs = make_tmpfs(&call);
	if (fs >= 0)
		tree = clone_tree("/usr", &call);
	if (fs >= 0 && tree >= 0) {
		call = "move_mount";
		if (move_mount(fs, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) == 0) {
			probe_yes(f, "fsopen, fsmount, open_tree, mount_setattr, move_mount");
			return;
		}
	}
	probe_no(f, errno, "%s: %s", call, strerror(errno));
}

void
probe_mount_api(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWNS, in_mount_api);
}

static void
in_tmpfs(struct doctor_finding *f)
{
	static char block[TMPFS_BYTES + 4096];
	cleanup_fd int fs = -1, fd = -1;
	const char *call;
	ssize_t n;

	fs = make_tmpfs(&call);
	if (fs >= 0) {
		call = "openat";
		fd = openat(fs, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	}
	if (fd < 0) {
		probe_no(f, errno, "%s: %s", call, strerror(errno));
		return;
	}
	n = write(fd, block, sizeof(block));
	if (n == TMPFS_BYTES && write(fd, block, 1) < 0 && errno == ENOSPC)
		probe_yes(f, "took 64 KiB of 64 KiB, then ENOSPC");
	else
		probe_no(f, 0, "a size of 64 KiB let %zd bytes in", n);
}

void
probe_tmpfs(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWNS, in_tmpfs);
}

/* `root` is the tmpfs, mounted on /proc; NULL if it all worked, else the call. */
static const char *
enter_root(int root, int usr)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mkdirat(root, "usr", 0755) < 0)
		return "mkdirat";
	if (move_mount(usr, "", root, "usr", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return "move_mount";
	if (fchdir(root) < 0 || kernel_pivot_root(".", ".") < 0)
		return "pivot_root";
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return "umount2";
	if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
		return "mount_setattr";
	return NULL;
}

static void
in_root(struct doctor_finding *f)
{
	cleanup_fd int fs = -1, usr = -1, root = -1;
	const char *call = "mount";

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		fs = make_tmpfs(&call);
	if (fs >= 0)
		usr = clone_tree("/usr", &call);
	if (usr >= 0)
		call = "move_mount";
	if (usr >= 0 && move_mount(fs, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) == 0)
		root = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root >= 0)
		call = enter_root(root, usr);
	if (call != NULL) {
		probe_no(f, errno, "%s: %s", call, strerror(errno));
		return;
	}
	if (access("/etc", F_OK) == 0 || access("/usr", F_OK) < 0)
		probe_no(f, 0, "what is not mounted is there, or what is mounted is not");
	else if (mkdir("/x", 0755) == 0 || errno != EROFS)
		probe_no(f, 0, "the root can be written");
	else
		probe_yes(f, "/usr and nothing else, read-only");
}

void
probe_pivot_root(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWNS | CLONE_NEWPID, in_root);
}

static int
make_proc(const char **ret_call)
{
	cleanup_fd int fs = -1;

	*ret_call = "fsopen";
	fs = fsopen("proc", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -1;
	*ret_call = "fsconfig";
	if (fsconfig(fs, FSCONFIG_SET_STRING, "subset", "pid", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "hidepid", "2", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	*ret_call = "fsmount";
	return fsmount(
	    fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static void
in_proc(struct doctor_finding *f)
{
	cleanup_fd int proc = -1;
	const char *call;

	proc = make_proc(&call);
	if (proc < 0)
		probe_no(f, errno, "%s: %s", call, strerror(errno));
	else if (faccessat(proc, "1/status", R_OK, 0) < 0 ||
		 faccessat(proc, "sys", F_OK, 0) == 0)
		probe_no(f, 0, "pid 1 is not in it, or sys is");
	else
		probe_yes(f, "subset=pid, hidepid=2: no sys, no meminfo");
}

void
probe_proc(struct doctor_finding *f)
{
	probe_chamber(f, CLONE_NEWNS | CLONE_NEWPID, in_proc);
}

/* ---- id-mapped mounts ---- */

static bool
try_idmap(struct doctor_finding *f, int dir_fd, const char *what)
{
	int r = mapping_probe(dir_fd);

	if (r < 0)
		probe_no(f, -r, "%.130s: %s", what, strerror(-r));
	return r == 0;
}

/* What /app is taken from, and where the workspaces of sessions lie. */
void
probe_idmap(struct doctor_finding *f)
{
	cleanup_fd int fd = -1;
	char at[PATH_MAX];

	if (!uid_is_root()) {
		probe_unasked(f, "needs root; without it the uid outside is this user's");
		return;
	}
	if (!try_idmap(f, AT_FDCWD, "the current directory"))
		return;
	if (probe_state_dir == NULL) {
		probe_yes(f, "on the file system of the current directory");
		return;
	}
	probe_existing(probe_state_dir, at);
	fd = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		probe_no(f, errno, "%.130s: %s", at, strerror(errno));
	else if (try_idmap(f, fd, at))
		probe_yes(f, "on the file systems of the current directory and of %.100s", at);
}
