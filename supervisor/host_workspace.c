/* The workspaces of a daemon's sessions: what its broker orders, and is told. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "common/log.h"
#include "supervisor/host_private.h"
#include "supervisor/mapping.h"
#include "supervisor/quota.h"
#include "supervisor/uid.h"

static void
workspaces_tell(const struct control *c, void *arg)
{
	struct host *h = arg;

	peer_send(h->services[BROKER].peer, c, NULL, 0);
}

static void
workspaces_on_idle(void *arg)
{
	host_go_on(arg);
}

static const struct workspaces_handler handler = {
	.tell = workspaces_tell,
	.on_idle = workspaces_on_idle,
};

/* Six for each of a session's two chambers (its processes, pipes, group, uid), and some while
 * it starts. */
#define SESSION_FILES 16
#define OTHER_FILES   1024 /* services, clients, who waits */

/*
 * Sessions at rest need none, and what cannot be started says why: a warning is all that it is
 * worth.  The broker's are fewer.
 */
static void
check_descriptors(const struct conf_namespace *c)
{
	uint64_t wanted = c->sessions.max * SESSION_FILES + OTHER_FILES;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted)
		log_warn("sessions.max: %ju sessions at work may need %ju descriptors, and the hard "
			 "limit is %ju: fewer may be at work at once (LimitNOFILE=%ju, or ulimit -Hn)",
		    (uintmax_t)c->sessions.max, (uintmax_t)wanted, (uintmax_t)limit.rlim_cur,
		    (uintmax_t)wanted);
}

/* The chamber can add flags to those of the host's mount, and takes none of them away. */
static void
check_execution(const struct host *h, const struct conf_namespace *c)
{
	struct statvfs st;
	size_t i;

	for (i = 0; i < c->runtimes.n; i++)
		if (c->runtimes.v[i].workspace_execute &&
		    fstatvfs(h->o.run->workspaces_fd, &st) == 0 && st.f_flag & ST_NOEXEC) {
			log_warn("runtimes[%zu].workspace_execute: %s lies on a file system that is "
				 "mounted noexec: nothing will be executed there (mount it with "
				 "exec, or put the state directory elsewhere)",
			    i, h->o.run->workspaces);
			return;
		}
}

/* As root a workspace is root's, which no chamber may be: said now, and not to the first
 * command.  A chamber of each session serves it to its clients, whatever is configured. */
static void
check_mapping(const struct host *h)
{
	if (uid_is_root() && mapping_probe(h->o.run->workspaces_fd) == -EINVAL)
		log_warn("%s lies on a file system that cannot map ids on this kernel: as root no "
			 "chamber with a workspace will start (put the state directory on ext4, "
			 "xfs or btrfs; on tmpfs it needs Linux 6.3)",
		    h->o.run->workspaces);
}

int
host_check_quota(
    int dir_fd, const char *file, const struct conf_namespace *c, char err[CONF_ERROR_MAX])
{
	int r = c->sessions.workspace_size ? quota_probe(dir_fd) : 0;

	if (r == 0)
		return 0;
	return conf_refuse(err, file, c->sessions.at_workspace_size,
	    "sessions.workspace_size: nothing would enforce it: %s: %s",
	    r == -EPERM	     ? "only root can bound a workspace" :
	    r == -ESRCH	     ? "the state directory's file system counts and bounds nothing" :
	    r == -EOPNOTSUPP ? "the state directory's file system has no project quotas" :
			       strerror(-r),
	    quota_remedy(r));
}

int
host_check(const struct host *h, const char *file, const struct conf_namespace *c,
    char err[CONF_ERROR_MAX])
{
	return host_check_quota(h->o.run->workspaces_fd, file, c, err);
}

static struct workspaces_bounds
bounds_of(const struct conf_namespace *c)
{
	return (struct workspaces_bounds){ c->sessions.max, c->sessions.workspace_size };
}

void
host_limit_sessions(struct host *h, const struct conf_namespace *c)
{
	struct workspaces_bounds bounds = bounds_of(c);

	if (!h->workspaces)
		return;
	workspaces_limit(h->workspaces, &bounds);
	check_descriptors(c);
	check_execution(h, c);
}

int
host_open_workspaces(struct host *h)
{
	struct workspaces_bounds bounds = bounds_of(h->config);

	h->workspaces = workspaces_create(h->base, h->o.run->workspaces_fd,
	    h->o.run->workspaces, &bounds, &handler, h);
	if (h->workspaces) {
		children_show(h->children, h->workspaces);
		check_descriptors(h->config);
		check_execution(h, h->config);
		check_mapping(h);
		return 0;
	}
	log_error("cannot read %s: %s", h->o.run->workspaces, strerror(errno));
	return -errno;
}

int
host_workspace(struct host *h, const struct control *c)
{
	return h->workspaces ? workspaces_make(h->workspaces, c->workspace) : -EPROTO;
}

int
host_workspace_drop(struct host *h, const struct control *c)
{
	return h->workspaces ? workspaces_drop(h->workspaces, c->workspace) : -EPROTO;
}
