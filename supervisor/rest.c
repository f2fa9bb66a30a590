#include "supervisor/rest.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/control.h"
#include "common/local_socket.h"
#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/host.h"
#include "supervisor/place.h"
#include "supervisor/setup.h"

#define AGAIN_MS   100	/* a lock has no event that could be waited for beside others */
#define PATIENCE_MS 5000
#define CONNECT_MS 1000 /* to one that does not accept */
#define REASON_MAX 400

struct rest {
	const struct options *o;
	struct setup setup;
	struct rundir dir;
	char *path; /* of the daemon's socket; NULL: there is no place for one */
	struct event_base *base;
	struct event *life, *term, *again;
	struct host *host; /* NULL: the lock is another's, or not taken yet */
	uint64_t until_ms; /* then it is told who holds the lock */
	uint64_t before; /* number of the last segment that was there */
	char *err;
	int error; /* 0, or why it could not begin, as `err` says */
	int status;
};

static void
fail(struct rest *rest, int error)
{
	rest->error = error;
	event_base_loopbreak(rest->base);
}

/* ---- a daemon has it --------------------------------------------------------------- */

/* Why the holder of the lock cannot be had at the socket, in front of who that is. */
static int
unreachable(struct rest *rest, int error, const struct ucred *peer)
{
	char held[DAEMON_ERROR_MAX];
	char why[REASON_MAX];

	snprintf(held, sizeof(held), "%s", rest->err);
	if (rest->path == NULL)
		snprintf(why, sizeof(why),
		    "--socket PATH: is needed where XDG_RUNTIME_DIR is not set");
	else if (error == EKEYREJECTED)
		snprintf(why, sizeof(why),
		    "--socket %.200s: whoever listens there is neither you nor root",
		    rest->path);
	else if (error == ESRCH)
		snprintf(why, sizeof(why),
		    "--socket %.200s: is served by pid %d, which is another daemon",
		    rest->path, (int)peer->pid);
	else
		snprintf(why, sizeof(why),
		    "--socket %.200s: nobody answers there: %s", rest->path,
		    strerror(error));
	snprintf(rest->err, DAEMON_ERROR_MAX, "%s; %.600s", why, held);
	return -error;
}

/* Hands the client a connection to the daemon that holds the lock. */
static int
hand_over(struct rest *rest)
{
	struct control m = { .verb = CONTROL_BROKER };
	struct ucred peer = { 0 };
	cleanup_fd int fd = -1;

	if (rest->path == NULL)
		return unreachable(rest, ENOENT, &peer);
	fd = local_socket_connect(rest->path, CONNECT_MS, &peer);
	if (fd < 0)
		return unreachable(rest, -fd, &peer);
	/* A pid of another pid namespace is 0 here: then its uid has to do. */
	if (peer.pid > 0 && rest->dir.holder > 0 && peer.pid != rest->dir.holder)
		return unreachable(rest, ESRCH, &peer);
	return control_send(PRIVATE_FD_CONTROL, &m, &fd, 1);
}

/* ---- nobody has it ----------------------------------------------------------------- */

static void
rest_on_done(int status, void *arg)
{
	struct rest *rest = arg;

	rest->status = status;
	event_base_loopbreak(rest->base);
}

static int
begin(struct rest *rest)
{
	struct host_options o = {
		.config = &rest->setup.config,
		.config_file = rest->setup.file,
		.facts = { .kind = rest->setup.kind,
		    .timeout_ms = rest->setup.timeout_ms,
		    .operator_uid = geteuid(),
		    .key = rest->dir.key },
		.run = &rest->dir,
		.client_fd = PRIVATE_FD_CONTROL,
		.on_done = rest_on_done,
		.arg = rest,
	};

	rest->before = rest->dir.segments;
	rest->host = host_create(rest->base, &o);
	if (rest->host)
		return 0;
	snprintf(rest->err, DAEMON_ERROR_MAX, "cannot start: out of memory");
	return -ENOMEM;
}

/* ---- which of the two -------------------------------------------------------------- */

static void
rest_on_again(evutil_socket_t fd, short events, void *arg)
{
	static const struct timeval again = { 0, AGAIN_MS * 1000 };
	struct rest *rest = arg;
	int r;

	(void)fd;
	(void)events;
	r = rundir_open(rest->o->has_state ? rest->o->state : NULL,
	    rest->setup.config.namespace, 0, &rest->dir, rest->err);
	if (r == 0) {
		r = begin(rest);
	} else if (r == -EWOULDBLOCK) {
		r = hand_over(rest);
		rundir_finish(&rest->dir);
		if (r == 0 || (clock_ms() < rest->until_ms &&
				  event_add(rest->again, &again) == 0))
			return;
	}
	if (r < 0)
		fail(rest, r);
}

/* Nobody writes to this pipe: readable is end-of-file. */
static void
rest_on_life(evutil_socket_t fd, short events, void *arg)
{
	struct rest *rest = arg;

	(void)fd;
	(void)events;
	event_del(rest->life);
	if (rest->host)
		host_shutdown(rest->host);
	else
		event_base_loopbreak(rest->base);
}

static int
loop(struct rest *rest)
{
	static const struct timeval now = { 0, 0 };

	rest->base = event_base_new();
	if (rest->base) {
		rest->life = event_new(
		    rest->base, PRIVATE_FD_LIFE, EV_READ | EV_PERSIST, rest_on_life, rest);
		rest->term = evsignal_new(rest->base, SIGTERM, rest_on_life, rest);
		rest->again = evtimer_new(rest->base, rest_on_again, rest);
	}
	if (!rest->life || !rest->term || !rest->again || event_add(rest->life, NULL) < 0 ||
	    event_add(rest->term, NULL) < 0 || event_add(rest->again, &now) < 0) {
		snprintf(rest->err, DAEMON_ERROR_MAX, "cannot start: out of memory");
		return -ENOMEM;
	}
	event_base_dispatch(rest->base);
	return rest->error;
}

int
rest_run(const struct options *o, int *ret_status, char err[DAEMON_ERROR_MAX])
{
	struct rest rest = {
		.o = o, .dir = RUNDIR_NONE, .until_ms = clock_ms() + PATIENCE_MS, .err = err
	};
	int r;

	r = setup_daemon(o, &rest.setup, err);
	if (r == 0)
		r = place_find(o, &rest.setup.config, &rest.path, err);
	if (r == 0)
		r = loop(&rest);
	if (rest.host)
		rundir_trim(&rest.dir, rest.before);
	host_destroy(rest.host);
	cgroup_host_finish();
	if (rest.life)
		event_free(rest.life);
	if (rest.term)
		event_free(rest.term);
	if (rest.again)
		event_free(rest.again);
	if (rest.base)
		event_base_free(rest.base);
	rundir_finish(&rest.dir);
	setup_finish(&rest.setup);
	free(rest.path);
	*ret_status = rest.status;
	return r;
}
