#include "supervisor/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/ground.h"
#include "supervisor/launch_layers.h"
#include "supervisor/launch_private.h"
#include "supervisor/launch_report.h"
#include "supervisor/listener.h"
#include "supervisor/standby.h"

#define REAP_GRACE_MS 250

/* What must have been seen before a report may come; each comes once. */
static const unsigned stage_after[STAGE_MAX] = {
	[STAGE_ERROR] = 0,
	[STAGE_USER] = 0,
	[STAGE_NETWORK] = 0,
	[STAGE_TIME] = 0,
	[STAGE_ROOT] = 0,
	[STAGE_STANDING] = 0,
	[STAGE_RUNTIME] = 0,
	[STAGE_LISTENER] = 0,
	[STAGE_EXEC] = 1u << STAGE_LISTENER,
};

/* Which bring a descriptor; the others must not. */
static const bool stage_brings_fd[STAGE_MAX] = {
	[STAGE_USER] = true,
	[STAGE_NETWORK] = true,
	[STAGE_TIME] = true,
	[STAGE_ROOT] = true,
	[STAGE_RUNTIME] = true,
};

static void init_adopt(struct launch *l);
static void launch_settle(struct launch *l);
static void socket_drain(struct launch *l);

/* ---- killing ---- */

static bool
proc_ended_well(const struct launch_proc *p)
{
	return p->reaped && p->code == CLD_EXITED && p->status == 0;
}

static void
grace_on_timer(evutil_socket_t fd, short events, void *arg)
{
	struct launch *l = arg;

	(void)fd;
	(void)events;
	launch_proc_kill(&l->init); /* and with pid 1 everything in its namespace */
	cgroup_kill(l->cgroup);
}

/*
 * Whom pid 1 leaves behind, nobody counts.  So a program that runs is killed first: pid 1 then
 * kills the rest and reaps all of it; and has a bounded time for that.
 */
static void
kill_chamber(struct launch *l)
{
	static const struct timeval grace = { .tv_usec = REAP_GRACE_MS * 1000 };

	l->dying = true;
	if (l->on_grace == NULL)
		l->on_grace = event_new(l->base, -1, 0, grace_on_timer, l);
	if (l->runtime_is_init || l->runtime_fd < 0 || (l->seen & 1u << STAGE_EXEC) == 0 ||
	    l->on_grace == NULL || event_add(l->on_grace, &grace) < 0 ||
	    pidfd_send_signal(l->runtime_fd, SIGKILL, NULL, 0) < 0)
		grace_on_timer(-1, 0, l);
}

static void
kill_all(struct launch *l)
{
	launch_proc_kill(&l->launcher);
	kill_chamber(l);
}

/* The first failure is the one that counts; what follows from it is noise. */
static void
launch_fail(struct launch *l, enum layer layer, int error)
{
	if (l->started)
		return;
	if (l->layer == LAYER_NONE) {
		l->layer = layer;
		l->error = error;
	}
	kill_all(l);
}

void
launch_kill(struct launch *l, enum ending cause)
{
	if (l->evidence.ordered == ENDING_none)
		l->evidence.ordered = cause;
	if (!l->started && l->layer == LAYER_NONE) {
		l->layer = LAYER_HANDSHAKE;
		l->error = ECANCELED;
	}
	kill_all(l);
}

int
launch_signal(struct launch *l, int signo)
{
	if (l->runtime_fd < 0 || !l->started)
		return -ESRCH;
	if (pidfd_send_signal(l->runtime_fd, signo, NULL, 0) < 0)
		return -errno;
	l->evidence.signals_sent |= 1ull << signo;
	return 0;
}

pid_t
launch_pid(const struct launch *l)
{
	return l->init.pidfd >= 0 && !l->init.reaped ? l->page->birth_pid : 0;
}

pid_t
launch_program_pid(const struct launch *l)
{
	return launch_pid(l) > 0 && l->runtime_fd >= 0 ? launch_proc_pid(l->runtime_fd) : 0;
}

bool
launch_stands(const struct launch *l)
{
	struct pollfd ends[] = { { l->launcher.pidfd, POLLIN, 0 }, { l->init.pidfd, POLLIN, 0 } };

	return !l->dying && l->layer == LAYER_NONE && poll(ends, countof(ends), 0) == 0;
}

void
launch_end_now(struct launch *l)
{
	kill_all(l);
	launch_proc_wait(&l->launcher);
	init_adopt(l);
	launch_proc_kill(&l->init);
	launch_proc_wait(&l->init);
}

bool
launch_lives(const struct launch *l)
{
	struct pollfd ends[] = { { l->init.pidfd, POLLIN, 0 }, { l->runtime_fd, POLLIN, 0 } };

	return !l->dying && (!l->started || poll(ends, countof(ends), 0) == 0);
}

bool
launch_stood_by(const struct launch *l)
{
	return l->stood_by;
}

/* With a word of its own, or on somebody's order, it is a refusal like any other. */
bool
launch_may_go_cold(const struct launch *l)
{
	return l->ordered && !l->released && (l->seen & 1u << STAGE_ERROR) == 0 &&
	       l->layer == LAYER_HANDSHAKE && l->error == 0 &&
	       l->evidence.ordered == ENDING_none;
}

void
launch_usage(const struct launch *l, struct cgroup_usage *ret)
{
	cgroup_usage(l->cgroup, ret);
}

const struct launch_layers *
launch_layers(const struct launch *l)
{
	return &l->layers;
}

/* ---- seccomp ---- */

static void
launch_on_forbidden(uint32_t nr, uint32_t arch, void *arg)
{
	struct launch *l = arg;

	if (l->evidence.ordered == ENDING_none) {
		l->evidence.ordered = ENDING_seccomp;
		l->evidence.syscall = nr;
		l->evidence.arch = arch;
	}
	/*
	 * A program may break the list in its first instant, before we have read that it was
	 * started, or before launcher and init have closed the socket, too.  From the report
	 * of the exec on it is the program.
	 */
	socket_drain(l);
	if ((l->seen & 1u << STAGE_EXEC) == 0)
		launch_fail(l, LAYER_SECCOMP, EPERM);
	/* The launcher has nothing to do with it, and may be about to end well. */
	kill_chamber(l);
}

static int
watch_listener(struct launch *l)
{
	int fd;

	if (l->listener_number < 0)
		return 0;
	fd = listener_fetch(l->runtime_fd, l->listener_number);
	return fd < 0 ? fd :
			listener_open(l->base, fd, l->learn, launch_on_forbidden, l, &l->listener);
}

/* The program may go on once its listener is ours. */
static void
runtime_release(struct launch *l)
{
	int ret;

	if (l->released || l->runtime_fd < 0 || (l->seen & 1u << STAGE_LISTENER) == 0)
		return;
	l->released = true;
	ret = watch_listener(l);
	/* One that is gone has no listener any more, and its end is the news. */
	if (ret == -ESRCH)
		launch_fail(l, LAYER_HANDSHAKE, ESRCH);
	else if (ret < 0)
		launch_fail(l, LAYER_SECCOMP, -ret);
	else if (send(l->socket_fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		launch_fail(l, LAYER_HANDSHAKE, errno);
}

/* ---- pid 1 ---- */

static void
init_on_exit(evutil_socket_t fd, short events, void *arg)
{
	struct launch *l = arg;

	(void)fd;
	(void)events;
	launch_proc_reap(&l->init);
	if (l->init.reaped)
		event_del(l->on_init);
	/* Its launcher would wait for ever; with an order it finds out. */
	if (l->init.reaped && l->stood_by && !l->ordered)
		launch_fail(l, LAYER_HANDSHAKE, 0);
	launch_settle(l);
}

/*
 * The kernel wrote its pid as it made it, and it is our child, not yet reaped: the number
 * cannot mean another process.
 */
static void
init_adopt(struct launch *l)
{
	pid_t pid = __atomic_load_n(&l->page->birth_pid, __ATOMIC_ACQUIRE);
	int fd;

	if (pid <= 0 || l->init.pidfd >= 0)
		return;
	fd = pidfd_open(pid, 0);
	if (fd >= 0)
		l->on_init = event_new(l->base, fd, EV_READ | EV_PERSIST, init_on_exit, l);
	if (fd < 0 || l->on_init == NULL || event_add(l->on_init, NULL) < 0) {
		/* Nothing can watch it, so it ends here and now. */
		launch_fail(l, LAYER_HANDSHAKE, fd < 0 ? errno : ENOMEM);
		syscall(SYS_kill, pid, SIGKILL);
		syscall(SYS_waitid, P_PID, pid, NULL, WEXITED | __WALL, NULL);
		__atomic_store_n(&l->page->birth_pid, 0, __ATOMIC_RELEASE);
		if (fd >= 0)
			close(fd);
		return;
	}
	l->init.pidfd = fd;
	if (l->runtime_is_init)
		l->runtime_fd = fd;
	if (l->dying)
		launch_proc_kill(&l->init);
}

void
launch_on_launcher(evutil_socket_t fd, short events, void *arg)
{
	struct launch *l = arg;

	(void)fd;
	(void)events;
	launch_proc_reap(&l->launcher);
	if (l->launcher.reaped)
		event_del(l->on_launcher);
	launch_settle(l);
}

/* ---- the hand-shake ---- */

static void
handle_report(struct launch *l, const struct launch_report *r, int fd)
{
	int ret;

	if (r->stage == 0 || r->stage >= STAGE_MAX || l->seen & 1u << r->stage ||
	    (l->seen & stage_after[r->stage]) != stage_after[r->stage] ||
	    (fd >= 0) != stage_brings_fd[r->stage] ||
	    (r->stage == STAGE_STANDING && !l->stood_by) ||
	    (r->stage == STAGE_RUNTIME && l->runtime_fd >= 0)) {
		if (fd >= 0)
			close(fd);
		launch_fail(l, LAYER_HANDSHAKE, EPROTO);
		return;
	}
	l->seen |= 1u << r->stage;
	init_adopt(l);
	switch (r->stage) {
	case STAGE_ERROR:
		launch_fail(l, r->layer < LAYER_MAX ? r->layer : LAYER_HANDSHAKE, r->error);
		break;
	case STAGE_USER:
	case STAGE_NETWORK:
	case STAGE_TIME:
	case STAGE_ROOT:
		ret = ground_keep(r->stage, fd, &l->root);
		if (ret < 0)
			launch_fail(l, LAYER_HANDSHAKE, -ret);
		break;
	case STAGE_RUNTIME:
		l->runtime_fd = fd;
		break;
	case STAGE_LISTENER:
		l->listener_number = r->value;
		launch_layers_report(&l->layers, r->layers);
		break;
	default:
		break;
	}
	runtime_release(l);
}

static void
socket_close(struct launch *l)
{
	if (l->on_socket != NULL)
		event_free(l->on_socket);
	l->on_socket = NULL;
	if (l->socket_fd >= 0)
		close(l->socket_fd);
	l->socket_fd = -1;
}

/*
 * The exec has happened, and the launcher, which gave pid 1 its uid, ended well.  Who dies
 * of anything else after its last word has still not said that all was done.
 */
static void
launch_begin(struct launch *l)
{
	if (l->started || l->layer != LAYER_NONE || l->socket_fd >= 0 ||
	    (l->seen & 1u << STAGE_EXEC) == 0 || !proc_ended_well(&l->launcher))
		return;
	l->started = true;
	if (l->recurs)
		standby_note(&l->kind);
	l->handler.on_started(l, l->arg);
}

/* Everybody has closed it: by the exec, or by dying. */
static void
handle_end(struct launch *l)
{
	socket_close(l);
	if ((l->seen & 1u << STAGE_EXEC) == 0 || l->seen & 1u << STAGE_ERROR)
		launch_fail(l, LAYER_HANDSHAKE, 0);
	launch_begin(l);
}

static void
socket_drain(struct launch *l)
{
	struct launch_report r;
	int fd, ret;

	while (l->socket_fd >= 0) {
		ret = launch_report_recv(l->socket_fd, &r, &fd);
		if (ret == 1) {
			handle_report(l, &r, fd);
			continue;
		}
		if (ret == -EAGAIN)
			return;
		if (ret < 0)
			launch_fail(l, LAYER_HANDSHAKE, -ret);
		handle_end(l);
	}
}

void
launch_on_socket(evutil_socket_t fd, short events, void *arg)
{
	struct launch *l = arg;

	(void)fd;
	(void)events;
	socket_drain(l);
}

/* ---- the end ---- */

void
launch_free(struct launch *l)
{
	struct event **events[] = { &l->on_launcher, &l->on_init, &l->on_grace };
	int *fds[] = { &l->status_fd, &l->launcher.pidfd, &l->init.pidfd };

	socket_close(l);
	listener_close(l->listener);
	for (size_t i = 0; i < countof(events); i++)
		if (*events[i] != NULL)
			event_free(*events[i]);
	if (!l->runtime_is_init && l->runtime_fd >= 0)
		close(l->runtime_fd);
	for (size_t i = 0; i < countof(fds); i++)
		util_close(fds[i]);
	if (l->page != NULL)
		munmap(l->page, l->page_size);
	cgroup_destroy(l->cgroup);
	ground_root_drop(l->root);
	free(l);
}

static void
launch_facts(struct launch *l, struct exit_facts *f)
{
	struct launch_evidence *e = &l->evidence;

	launch_exit_status(&l->init, l->runtime_fd, l->runtime_is_init ? -1 : l->status_fd, f,
	    &e->limited_us);
	e->filter_kills = l->listener == NULL;
	cgroup_usage(l->cgroup, &e->usage);
	launch_exit_explain(f, e);
}

/* Why a launch ended without a word: the facts of whoever died. */
static void
refusal_facts(struct launch *l, struct exit_facts *f)
{
	if (l->init.pidfd >= 0 && l->launcher.code == CLD_EXITED && l->launcher.status == 0)
		launch_facts(l, f);
	else
		launch_exit_of(&l->launcher, f);
	f->cause = l->evidence.ordered;
	if (f->cause == ENDING_seccomp) {
		f->syscall = l->evidence.syscall;
		f->arch = l->evidence.arch;
	}
}

static void
launch_settle(struct launch *l)
{
	struct exit_facts facts = { 0 };

	if (!l->launcher.reaped)
		return;
	init_adopt(l);
	if (!proc_ended_well(&l->launcher)) {
		socket_drain(l); /* its own report comes first */
		launch_fail(l, LAYER_HANDSHAKE, 0);
	}
	launch_begin(l);
	if (l->init.pidfd >= 0 && !l->init.reaped)
		return;
	socket_drain(l);
	if (l->socket_fd >= 0)
		handle_end(l); /* nobody is left who could close it */
	if (l->started) {
		launch_facts(l, &facts);
		l->handler.on_exit(l, &facts, l->arg);
	} else {
		refusal_facts(l, &facts);
		l->handler.on_refused(l, l->layer, l->error,
		    l->seen & 1u << STAGE_ERROR ? NULL : &facts, l->arg);
	}
	launch_free(l);
}
