#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/launch.h"
#include "supervisor/launch_layers.h"
#include "supervisor/peer.h"
#include "supervisor/uid.h"
#include "worker/kernel.h"

/* What to do about it; error 0 stands for every error of its layer. */
static const struct {
	enum layer layer;
	int error;
	const char *advice;
} advices[] = {
	{ LAYER_PLAN, E2BIG, "arguments, environment and mounts together are too large" },
	{ LAYER_PLAN, EPERM,
	    "something read-only lies deep in a writable directory, and one between belongs to "
	    "somebody else: mount that one by itself" },
	{ LAYER_PLAN, EACCES,
	    "a directory that is shown writable holds the system's programs, or is that of our "
	    "own: mount less of it" },
	{ LAYER_PLAN, 0, "the chamber described makes no sense" },
	{ LAYER_SOURCES, ENOENT, "a directory to be shown in the chamber does not exist" },
	{ LAYER_SOURCES, EACCES,
	    "a directory to be shown in the chamber cannot be opened by this user" },
	{ LAYER_SOURCES, ELOOP,
	    "a part of a directory's path is a symbolic link: name the real path" },
	{ LAYER_SOURCES, 0, "a directory to be shown in the chamber cannot be opened" },
	{ LAYER_UID, EPERM,
	    "outside the chamber has this user's own uid: only root can give it another" },
	{ LAYER_UID, EINVAL,
	    "as root every chamber needs a uid of its own, or the file system cannot "
	    "map one (uid_range; id-mapped mounts)" },
	{ LAYER_UID, 0, "the chamber's uid cannot be taken" },
	{ LAYER_USER_NAMESPACE, ENOSPC,
	    "no user namespace is left: raise sysctl user.max_user_namespaces" },
	{ LAYER_USER_NAMESPACE, EUSERS, "user namespaces are nested too deep here" },
	{ LAYER_USER_NAMESPACE, EPERM,
	    "user namespaces are forbidden: see sysctl "
	    "kernel.unprivileged_userns_clone (1), "
	    "kernel.apparmor_restrict_unprivileged_userns (0), or the container's "
	    "seccomp profile" },
	{ LAYER_USER_NAMESPACE, EROFS,
	    "/proc/sys is read-only, so that further user namespaces cannot be "
	    "forbidden: run outside this container" },
	{ LAYER_USER_NAMESPACE, 0, "user namespaces do not work here" },
	{ LAYER_NAMESPACES, 0,
	    "this kernel lacks a namespace (user, pid, mnt, net, ipc, uts, cgroup)" },
	{ LAYER_CGROUP, ENOTSUP,
	    "nothing on this machine enforces a limit on the processor: it needs "
	    "root and the cpu controller" },
	{ LAYER_CGROUP, 0, "the cgroup cannot be made" },
	{ LAYER_MOUNTS, EPERM,
	    "mounting in a user namespace is forbidden: see sysctl "
	    "kernel.apparmor_restrict_unprivileged_userns, or the container's "
	    "seccomp profile" },
	{ LAYER_MOUNTS, EACCES,
	    "mounting in a user namespace is forbidden: see sysctl "
	    "kernel.apparmor_restrict_unprivileged_userns" },
	{ LAYER_MOUNTS, ENOSYS, "this kernel lacks the mount calls of Linux 5.12" },
	{ LAYER_MOUNTS, EROFS,
	    "a mount point is missing in a directory that is shown read-only" },
	{ LAYER_MOUNTS, 0, "the chamber's file system cannot be built" },
	{ LAYER_PIVOT_ROOT, 0, "the root cannot be changed: is this an initramfs?" },
	{ LAYER_PROC, EPERM,
	    "a fresh /proc is forbidden where parts of the host's are masked, as in "
	    "most containers: unmask /proc" },
	{ LAYER_PROC, 0, "a fresh /proc cannot be mounted; it needs Linux 5.8" },
	{ LAYER_RLIMITS, EAGAIN, "the user has too many processes (ulimit -u)" },
	{ LAYER_RLIMITS, 0, "a resource limit cannot be set" },
	{ LAYER_CAPABILITIES, 0, "capabilities cannot be dropped" },
	{ LAYER_DESCRIPTORS, EMFILE, "too few descriptors: raise ulimit -n" },
	{ LAYER_DESCRIPTORS, ETOOMANYREFS,
	    "programs of this user have too many descriptors under way in sockets: raise ulimit "
	    "-n, or find out whose they are" },
	{ LAYER_DESCRIPTORS, 0, "the descriptors cannot be arranged" },
	{ LAYER_NO_NEW_PRIVS, 0, "no_new_privs cannot be set" },
	{ LAYER_LANDLOCK, EOPNOTSUPP,
	    "Landlock is built in but off: add landlock to lsm= on the kernel's "
	    "command line" },
	{ LAYER_LANDLOCK, ENOSYS,
	    "this kernel has no Landlock: it needs Linux 5.13 with "
	    "CONFIG_SECURITY_LANDLOCK" },
	{ LAYER_LANDLOCK, 0, "Landlock cannot be applied" },
	{ LAYER_SECCOMP, EINVAL, "the seccomp filter is not understood here" },
	{ LAYER_SECCOMP, 0, "the seccomp filter cannot be applied" },
	{ LAYER_EXEC, ENOENT,
	    "the program, or the interpreter that it names, is not in the chamber: "
	    "only /usr, /app and what is mounted are" },
	{ LAYER_EXEC, EACCES,
	    "the program cannot be executed: mode, or a directory that can be "
	    "written, by this mount or another" },
	{ LAYER_EXEC, ENOEXEC,
	    "the program is in no format that the kernel runs: a script needs a #! "
	    "line" },
	{ LAYER_EXEC, 0, "the program cannot be executed" },
	{ LAYER_HANDSHAKE, ECANCELED, "it was killed before it had started" },
	{ LAYER_HANDSHAKE, ENOENT, "the launcher caisson-worker is not installed" },
	{ LAYER_HANDSHAKE, 0, "the launcher ended before the program had started" },
	{ LAYER_DEATHS, 0, "too many of its processes died as they started" },
	{ LAYER_GROUPS, 0,
	    "only root can drop supplementary groups, and what they reach the chamber would: "
	    "run as root, or as a user of one group" },
	{ LAYER_NETWORK, 0, "the chamber cannot be cut off from the network" },
	{ LAYER_TIME, 0,
	    "the host's uptime can be seen: it needs Linux 5.6 with CONFIG_TIME_NS" },
	{ LAYER_PARENT, 0, "the chamber cannot be tied to its supervisor" },
	{ LAYER_TCP, 0, "this kernel has no Landlock rules for TCP: it needs Linux 6.7" },
	{ LAYER_SCOPES, 0,
	    "this kernel has no Landlock scopes for signals and abstract sockets: it needs "
	    "Linux 6.12" },
	{ LAYER_MDWE, 0,
	    "this kernel cannot keep written memory from being executed: it needs Linux 6.3" },
	{ LAYER_RIGHTS, 0,
	    "this kernel cannot refuse descriptors on a link, so they are dropped: it needs "
	    "Linux 6.16" },
	{ LAYER_LISTENER, EBUSY,
	    "a supervisor further up listens already: a forbidden call kills, and has no "
	    "name" },
	{ LAYER_LISTENER, 0, "a forbidden call kills, and has no name" },
	{ LAYER_EXIT_FACTS, 0,
	    "how the program ended is told by init, not by the kernel: it needs Linux 6.15" },
};

void
launch_explain(enum layer layer, int error, char *buf, size_t cap)
{
	const char *advice = "";

	for (size_t i = 0; i < countof(advices); i++)
		if (advices[i].layer == layer &&
		    (advices[i].error == error || advices[i].error == 0)) {
			advice = advices[i].advice;
			break;
		}
	if (error != 0)
		snprintf(buf, cap, "%s: %s (%s)", layer_name(layer), advice, strerror(error));
	else
		snprintf(buf, cap, "%s: %s", layer_name(layer), advice);
}

static void
add_absent(char *buf, size_t cap, enum layer layer, int error)
{
	size_t n = strlen(buf);

	launch_explain(layer, error, buf + n, cap - n);
	n = strlen(buf);
	snprintf(buf + n, cap - n, "\n");
}

static bool
has_mdwe(void)
{
	return prctl(KERNEL_PR_GET_MDWE, 0, 0, 0, 0) >= 0;
}

static bool
has_passrights(void)
{
	cleanup_fd int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(int);
	int on;

	return getsockopt(s, SOL_SOCKET, PEER_SO_PASSRIGHTS, &on, &n) == 0;
}

const char *
launch_absent(void)
{
	static char text[2048];
	static bool known;
	int abi;

	if (known)
		return text;
	known = true;
	abi = kernel_landlock_create(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (access("/proc/self/ns/time", F_OK) < 0)
		add_absent(text, sizeof(text), LAYER_TIME, 0);
	if (abi < 4)
		add_absent(text, sizeof(text), LAYER_TCP, 0);
	if (abi < 6)
		add_absent(text, sizeof(text), LAYER_SCOPES, 0);
	if (!has_mdwe())
		add_absent(text, sizeof(text), LAYER_MDWE, 0);
	if (!has_passrights())
		add_absent(text, sizeof(text), LAYER_RIGHTS, 0);
	if (launch_layers_probe_exit_facts() < 0)
		add_absent(text, sizeof(text), LAYER_EXIT_FACTS, 0);
	if (!uid_is_root()) {
		add_absent(text, sizeof(text), LAYER_UID, EPERM);
		if (getgroups(0, NULL) > 1)
			add_absent(text, sizeof(text), LAYER_GROUPS, EPERM);
	}
	return text;
}
