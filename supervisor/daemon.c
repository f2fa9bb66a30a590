#include "supervisor/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <event2/event.h>

#include "common/log.h"
#include "common/util.h"
#include "supervisor/activation.h"
#include "supervisor/cgroup.h"
#include "supervisor/front.h"
#include "supervisor/host.h"
#include "supervisor/listen.h"
#include "supervisor/lockfile.h"
#include "supervisor/notify.h"
#include "supervisor/place.h"
#include "supervisor/reload.h"
#include "supervisor/setup.h"

#define VISIT_MS 2000 /* for a command at rest, which holds the namespace for a moment */

struct daemon {
	const struct options *o;
	struct setup setup;
	struct rundir dir;
	struct lockfile pid_file;
	char *path; /* of the socket */
	struct event_base *base;
	struct activation activation;
	struct front front;
	struct listen *listen;
	struct host *host;
	struct reload *reload;
	struct event *term, *interrupt, *hangup, *watchdog;
	int ready_fd;  /* -n; -1: none, or told */
	int parent_fd; /* of the process that waits in the foreground, likewise */
	bool told, ending, killed;
	int status;
};

/* ---- what happens ------------------------------------------------------------------ */

/* Once: a broker that is replaced makes nobody less ready. */
static void
tell_ready(struct daemon *d)
{
	uint64_t ms = notify_watchdog_ms();
	struct timeval tv = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };
	char state[128];
	int r;

	if (d->told)
		return;
	d->told = true;
	snprintf(state, sizeof(state), "READY=1\nMAINPID=%d\nSTATUS=serving the namespace %s",
	    (int)getpid(), d->setup.config.namespace);
	r = notify_send(state);
	if (r < 0)
		log_warn("cannot tell NOTIFY_SOCKET: %s", strerror(-r));
	notify_ready(steal_fd(&d->ready_fd));
	notify_ready(steal_fd(&d->parent_fd));
	if (ms > 0)
		event_add(d->watchdog, &tv);
}

static void
daemon_on_clients(bool served, void *arg)
{
	struct daemon *d = arg;

	if (!served) {
		listen_pause(d->listen, true);
		return;
	}
	if (d->ending)
		return;
	listen_resume(d->listen);
	log_info("the namespace %s is served at %s", d->setup.config.namespace, d->path);
	if (!d->told)
		front_log(&d->front);
	tell_ready(d);
	reload_on_ready(d->reload);
}

static void
daemon_on_client(int fd, const struct ucred *peer, void *arg)
{
	struct daemon *d = arg;

	host_client(d->host, fd, peer);
}

static int
daemon_on_client_taken(void *arg)
{
	struct daemon *d = arg;

	return listen_taken(d->listen);
}

static int
daemon_on_client_gone(uid_t uid, void *arg)
{
	struct daemon *d = arg;

	return listen_gone(d->listen, uid);
}

static void
daemon_on_done(int status, void *arg)
{
	struct daemon *d = arg;

	d->status = status;
	event_base_loopbreak(d->base);
}

static void
daemon_on_term(evutil_socket_t signo, short events, void *arg)
{
	struct daemon *d = arg;

	(void)events;
	if (d->ending) {
		log_warn("told to end again: everything is killed");
		d->killed = true;
		host_kill(d->host);
		return;
	}
	d->ending = true;
	log_info("told to end by signal %d: what is open is ended", (int)signo);
	notify_send("STOPPING=1\nSTATUS=ending what is open");
	listen_end(d->listen);
	host_shutdown(d->host);
	front_end(&d->front); /* as soon as the gateway closes its own, too */
}

static void
daemon_on_hangup(evutil_socket_t signo, short events, void *arg)
{
	struct daemon *d = arg;

	(void)signo;
	(void)events;
	if (d->ending)
		log_info("SIGHUP: caissond is ending: nothing is read again");
	else
		reload_ask(d->reload);
}

static void
daemon_on_reloaded(int error, enum config_row_kind row, uint32_t index,
    const struct conf_namespace *c, void *arg)
{
	struct daemon *d = arg;

	reload_on_answer(d->reload, error, row, index, c);
}

static void
daemon_on_gateway_config(int error, uint32_t index, void *arg)
{
	struct daemon *d = arg;

	reload_on_gateway(d->reload, error, index);
}

static void
daemon_on_watchdog(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	(void)arg;
	notify_send("WATCHDOG=1");
}

/* ---- the start --------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static int
refuse(char err[DAEMON_ERROR_MAX], int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, DAEMON_ERROR_MAX, fmt, ap);
	va_end(ap);
	return error;
}

static bool
is_wanted(const struct daemon *d, int fd)
{
	unsigned i;

	for (i = 0; i < d->activation.n; i++)
		if (fd == d->activation.v[i].fd)
			return true;
	return fd == d->ready_fd;
}

/* Nothing that a caller left open but the standard streams, what systemd opened, and the
 * descriptor of -n. */
static int
take_descriptors(struct daemon *d, char err[DAEMON_ERROR_MAX])
{
	int fd, last = ACTIVATION_FIRST + ACTIVATION_MAX, r;

	do /* a closed 0, 1 or 2 would be the number of the next thing opened */
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO && fcntl(fd, F_SETFD, 0) == 0);
	util_close(&fd);
	r = activation_read(ACTIVATION_FIRST, &d->activation, err);
	if (r < 0)
		return r;
	fd = (int)d->o->ready_fd;
	if (d->o->has_ready_fd &&
	    (fd <= STDERR_FILENO || is_wanted(d, fd) || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0))
		return refuse(err, -EBADF,
		    "--ready-fd: %d is no open descriptor above 2, expected a pipe's end", fd);
	if (d->o->has_ready_fd)
		d->ready_fd = fd;
	if (last < d->ready_fd)
		last = d->ready_fd;
	for (fd = STDERR_FILENO + 1; fd <= last; fd++)
		if (!is_wanted(d, fd))
			close(fd);
	closefrom(last + 1);
	return 0;
}

static int
find_socket(struct daemon *d, char err[DAEMON_ERROR_MAX])
{
	int r = place_find(d->o, &d->setup.config, &d->path, err);

	if (r < 0 || d->path)
		return r;
	return refuse(
	    err, -ENOENT, "--socket PATH: is needed where XDG_RUNTIME_DIR is not set");
}

static int
hold_pid_file(struct daemon *d, char err[DAEMON_ERROR_MAX])
{
	char text[LOCKFILE_HOLDER_MAX];
	pid_t holder;
	int r;

	if (!d->o->has_pid_file)
		return 0;
	r = lockfile_open(d->o->pid_file, &d->pid_file, &holder);
	if (r == -EWOULDBLOCK)
		return refuse(err, r, "--pid-file %.300s: is held by %s", d->o->pid_file,
		    lockfile_holder(holder, text));
	if (r == -EPERM)
		return refuse(err, r,
		    "--pid-file %.300s: something is there that is not ours: remove it, or name "
		    "another",
		    d->o->pid_file);
	return r < 0 ? refuse(err, r, "--pid-file %.300s: %s", d->o->pid_file, strerror(-r)) : 0;
}

static int
go_into_background(struct daemon *d, char err[DAEMON_ERROR_MAX])
{
	int null, r;

	if (d->o->foreground)
		return 0;
	r = notify_daemonize();
	if (r < 0)
		return refuse(err, r, "cannot go into the background: %s", strerror(-r));
	d->parent_fd = r;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		return refuse(err, -errno, "/dev/null: %s", strerror(errno));
	close(null);
	return 0;
}

/*
 * A SIGHUP is kept until there is somebody to handle it: a file that was changed behind the
 * first look at it is read again then.
 */
static void
hold_hangups(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigprocmask(how, &set, NULL);
}

static int
watch(struct daemon *d)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	d->term = evsignal_new(d->base, SIGTERM, daemon_on_term, d);
	d->interrupt = evsignal_new(d->base, SIGINT, daemon_on_term, d);
	d->hangup = evsignal_new(d->base, SIGHUP, daemon_on_hangup, d);
	d->watchdog = event_new(d->base, -1, EV_PERSIST, daemon_on_watchdog, d);
	if (!d->term || !d->interrupt || !d->hangup || !d->watchdog ||
	    event_add(d->term, NULL) < 0 || event_add(d->hangup, NULL) < 0 ||
	    (d->o->foreground && event_add(d->interrupt, NULL) < 0))
		return -ENOMEM;
	if (!d->o->foreground)
		signal(SIGINT, SIG_IGN);
	hold_hangups(SIG_UNBLOCK);
	return 0;
}

static int
open_sockets(struct daemon *d, char err[DAEMON_ERROR_MAX])
{
	struct listen_options listen = {
		.path = d->path,
		.operator_uid = geteuid(),
		.on_client = daemon_on_client,
		.arg = d
	};
	int r;

	r = front_open(&d->setup.config, d->setup.file, &d->activation, &d->front, err);
	if (r < 0)
		return r;
	listen.fd = sockets_take_path(&d->activation, "local", d->path);
	listen.inherited = listen.fd >= 0;
	r = listen_open(d->base, &listen, &d->listen, err);
	return r < 0 ? r : activation_check(&d->activation, err);
}

static int
open_all(struct daemon *d, char err[DAEMON_ERROR_MAX])
{
	int r;

	d->reload = reload_create(d->o, &d->host);
	if (!d->reload)
		return refuse(err, -errno, "-c %.500s: %s", d->o->config, strerror(errno));
	if ((r = take_descriptors(d, err)) < 0 ||
	    (r = setup_daemon(d->o, &d->setup, err)) < 0 || (r = find_socket(d, err)) < 0 ||
	    (r = go_into_background(d, err)) < 0)
		return r;
	/* Locks say our pid, and the base is of the process that uses it: not before. */
	r = hold_pid_file(d, err);
	if (r < 0)
		return r;
	r = rundir_open(d->o->has_state ? d->o->state : NULL, d->setup.config.namespace,
	    VISIT_MS, &d->dir, err);
	if (r == 0)
		r = host_check_quota(d->dir.workspaces_fd, d->setup.file, &d->setup.config, err);
	if (r < 0)
		return r;
	d->base = event_base_new();
	if (!d->base || event_base_priority_init(d->base, LISTEN_PRIORITIES) < 0)
		return refuse(err, -ENOMEM, "out of memory");
	r = open_sockets(d, err);
	if (r == 0 && !d->o->foreground)
		(void)!chdir("/"); /* keeps nothing from being unmounted: paths were resolved */
	if (r == 0 && (r = watch(d)) < 0)
		refuse(err, r, "cannot start the event loop: out of memory");
	return r;
}

static int
serve(struct daemon *d, char err[DAEMON_ERROR_MAX])
{
	struct host_options o = {
		.config = &d->setup.config,
		.config_file = d->setup.file,
		.facts = { .kind = d->setup.kind,
		    .timeout_ms = d->setup.timeout_ms,
		    .operator_uid = geteuid(),
		    .daemon = true,
		    .key = d->dir.key },
		.run = &d->dir,
		.gateway_fds = sockets_fds(d->front.sockets),
		.ngateway_fds = sockets_count(d->front.sockets),
		.gateway_config = buf_slice(&d->front.config),
		.on_gateway_config = daemon_on_gateway_config,
		.client_fd = -1,
		.on_clients = daemon_on_clients,
		.on_client_taken = daemon_on_client_taken,
		.on_client_gone = daemon_on_client_gone,
		.on_reloaded = daemon_on_reloaded,
		.on_done = daemon_on_done,
		.arg = d,
	};

	d->host = host_create(d->base, &o);
	front_forget(&d->front.config); /* it has its own */
	if (!d->host)
		return refuse(err, -ENOMEM, "cannot start: out of memory");
	event_base_dispatch(d->base);
	return 0;
}

static void
close_all(struct daemon *d)
{
	struct event *events[] = { d->term, d->interrupt, d->hangup, d->watchdog };
	size_t i;

	host_destroy(d->host);
	reload_destroy(d->reload);
	cgroup_host_finish();
	listen_close(d->listen);
	front_finish(&d->front);
	activation_finish(&d->activation);
	lockfile_close(&d->pid_file);
	for (i = 0; i < countof(events); i++)
		if (events[i])
			event_free(events[i]);
	if (d->base)
		event_base_free(d->base);
	rundir_finish(&d->dir);
	setup_finish(&d->setup);
	util_close(&d->ready_fd);
	util_close(&d->parent_fd);
	free(d->path);
}

int
daemon_run(const struct options *o, int *ret_status, char err[DAEMON_ERROR_MAX])
{
	struct daemon d = {
		.o = o, .dir = RUNDIR_NONE, .pid_file = LOCKFILE_NONE,
		.ready_fd = -1, .parent_fd = -1, .status = 125
	};
	int r;

	umask(077);
	hold_hangups(SIG_BLOCK);
	r = open_all(&d, err);
	if (r == 0)
		r = serve(&d, err);
	close_all(&d);
	if (d.killed) {
		signal(SIGTERM, SIG_DFL);
		raise(SIGTERM);
	}
	*ret_status = d.status;
	return r;
}
