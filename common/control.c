#include "common/control.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"

static const char *const layer_names[LAYER_MAX] = {
	[LAYER_NONE] = "none",
	[LAYER_PLAN] = "plan",
	[LAYER_SOURCES] = "sources",
	[LAYER_UID] = "uid",
	[LAYER_USER_NAMESPACE] = "user namespace",
	[LAYER_NAMESPACES] = "namespaces",
	[LAYER_CGROUP] = "cgroup",
	[LAYER_MOUNTS] = "mounts",
	[LAYER_PIVOT_ROOT] = "pivot_root",
	[LAYER_PROC] = "proc",
	[LAYER_RLIMITS] = "rlimits",
	[LAYER_CAPABILITIES] = "capabilities",
	[LAYER_DESCRIPTORS] = "descriptors",
	[LAYER_NO_NEW_PRIVS] = "no_new_privs",
	[LAYER_LANDLOCK] = "landlock",
	[LAYER_SECCOMP] = "seccomp",
	[LAYER_EXEC] = "exec",
	[LAYER_HANDSHAKE] = "handshake",
	[LAYER_DEATHS] = "start deaths",
	[LAYER_GROUPS] = "groups",
	[LAYER_NETWORK] = "network",
	[LAYER_TIME] = "time namespace",
	[LAYER_PARENT] = "parent death",
	[LAYER_TCP] = "landlock tcp",
	[LAYER_SCOPES] = "landlock scopes",
	[LAYER_MDWE] = "mdwe",
	[LAYER_RIGHTS] = "passrights",
	[LAYER_LISTENER] = "listener",
	[LAYER_EXIT_FACTS] = "exit facts",
};

const char *
layer_name(uint32_t layer)
{
	return layer < LAYER_MAX ? layer_names[layer] : "unknown";
}

bool
control_may_signal(uint64_t signo)
{
	static const int allowed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,
		SIGWINCH };

	for (size_t i = 0; i < countof(allowed); i++)
		if (signo == (uint64_t)allowed[i])
			return true;
	return false;
}

/* Room for as many descriptors as may travel, aligned as the kernel wants it. */
union control_cmsg {
	char bytes[CMSG_SPACE(CONTROL_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int
control_send(int fd, const struct control *c, const int *fds, unsigned nfds)
{
	struct control copy = *c;
	struct iovec iov = { &copy, sizeof copy };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control_cmsg cmsg = { .bytes = { 0 } };
	ssize_t n;

	if (nfds > CONTROL_FDS_MAX)
		return -EINVAL;
	if (nfds > 0) {
		msg.msg_control = cmsg.bytes;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cmsg.align.cmsg_level = SOL_SOCKET;
		cmsg.align.cmsg_type = SCM_RIGHTS;
		cmsg.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&cmsg.align), fds, nfds * sizeof(int));
	}
	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Moves the descriptors of `msg` to `fds`; all of them, whatever came. */
static unsigned
take_fds(struct msghdr *msg, int fds[CONTROL_FDS_MAX])
{
	struct cmsghdr *cmsg;
	unsigned n = 0;
	size_t i, count;
	int fd;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg != NULL; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
			if (n < CONTROL_FDS_MAX)
				fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

int
control_recv(int fd, struct control *ret, int ret_fds[CONTROL_FDS_MAX], unsigned *ret_nfds)
{
	struct control c;
	struct iovec iov = { &c, sizeof c };
	union control_cmsg cmsg;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = cmsg.bytes,
		.msg_controllen = sizeof cmsg.bytes };
	unsigned nfds, i;
	ssize_t n;

	for (i = 0; i < CONTROL_FDS_MAX; i++)
		ret_fds[i] = -1;
	*ret_nfds = 0;
	/*
	 * A peer that died with something of ours unread is as gone as one that had read it.
	 * The kernel says so once, and before what the peer had sent; end-of-file comes after
	 * that.
	 */
	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -errno;
	nfds = take_fds(&msg, ret_fds);
	if (n == (ssize_t)sizeof c && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		*ret = c;
		*ret_nfds = nfds;
		return 1;
	}
	for (i = 0; i < nfds; i++)
		close(ret_fds[i]);
	for (i = 0; i < CONTROL_FDS_MAX; i++)
		ret_fds[i] = -1;
	if (n == 0)
		return 0;
	/* Fewer came than fit: it is we who have no room (RLIMIT_NOFILE), and who sent them did
	 * nothing wrong. */
	if (n != (ssize_t)sizeof c || msg.msg_flags & MSG_TRUNC || nfds == CONTROL_FDS_MAX)
		return -EPROTO;
	*ret = c;
	return 1;
}
