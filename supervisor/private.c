#include "supervisor/private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/log.h"
#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/host.h"
#include "supervisor/learn_run.h"
#include "supervisor/rest.h"
#include "supervisor/setup.h"

struct private_run {
	struct event_base *base;
	struct host *host;
	struct event *life, *term;
	int status;
};

static void
run_on_done(int status, void *arg)
{
	struct private_run *run = arg;

	run->status = status;
	event_base_loopbreak(run->base);
}

/* Nobody writes to this pipe: readable is end-of-file. */
static void
run_on_life(evutil_socket_t fd, short events, void *arg)
{
	struct private_run *run = arg;

	(void)fd;
	(void)events;
	event_del(run->life);
	host_shutdown(run->host);
}

static void
run_on_term(evutil_socket_t signo, short events, void *arg)
{
	struct private_run *run = arg;

	(void)signo;
	(void)events;
	host_shutdown(run->host);
}

/* Only a client gives these two descriptors; everything else that was inherited goes. */
static int
check_descriptors(bool proposal, char err[DAEMON_ERROR_MAX])
{
	int last = proposal ? PRIVATE_FD_PROPOSAL : PRIVATE_FD_LIFE;
	struct stat control, life;

	if (fstat(PRIVATE_FD_CONTROL, &control) < 0 || !S_ISSOCK(control.st_mode) ||
	    fstat(PRIVATE_FD_LIFE, &life) < 0 || !S_ISFIFO(life.st_mode) ||
	    fcntl(PRIVATE_FD_CONTROL, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(PRIVATE_FD_LIFE, F_SETFD, FD_CLOEXEC) < 0 ||
	    (proposal && fcntl(PRIVATE_FD_PROPOSAL, F_SETFD, FD_CLOEXEC) < 0)) {
		snprintf(err, DAEMON_ERROR_MAX,
		    "--private: is started by caisson run, exec, learn and grant only");
		return -EBADF;
	}
	closefrom(last + 1);
	return 0;
}

static void
ignore_signals(void)
{
	static const int ignored[] = { SIGINT, SIGHUP, SIGQUIT, SIGPIPE };
	size_t i;

	for (i = 0; i < countof(ignored); i++)
		signal(ignored[i], SIG_IGN);
}

static int
loop(struct private_run *run, const struct host_options *o)
{
	if (run->base) {
		run->life = event_new(
		    run->base, PRIVATE_FD_LIFE, EV_READ | EV_PERSIST, run_on_life, run);
		run->term = evsignal_new(run->base, SIGTERM, run_on_term, run);
	}
	if (!run->life || !run->term || event_add(run->life, NULL) < 0 ||
	    event_add(run->term, NULL) < 0)
		return -ENOMEM;
	run->host = host_create(run->base, o);
	if (!run->host)
		return -ENOMEM;
	event_base_dispatch(run->base);
	return 0;
}

static int
serve(const struct setup *setup, struct rundir *dir, struct learn *learn, int *ret_status)
{
	struct private_run run = { .base = event_base_new(), .status = 125 };
	struct host_options o = {
		.config = &setup->config,
		.config_file = setup->file,
		.facts = { .kind = setup->kind,
		    .timeout_ms = setup->timeout_ms,
		    .learn = learn != NULL,
		    .operator_uid = geteuid(),
		    .key = dir->key },
		.run = dir,
		.learn = learn,
		.client_fd = PRIVATE_FD_CONTROL,
		.on_done = run_on_done,
		.arg = &run,
	};
	int r = loop(&run, &o);

	host_destroy(run.host);
	cgroup_host_finish();
	if (run.life)
		event_free(run.life);
	if (run.term)
		event_free(run.term);
	if (run.base)
		event_base_free(run.base);
	*ret_status = run.status;
	return r;
}

int
private_run(enum command command, const struct options *o, int *ret_status,
    char err[DAEMON_ERROR_MAX])
{
	struct rundir dir = RUNDIR_NONE;
	bool learns = command == COMMAND_learn;
	struct learn_run learn = LEARN_RUN_NONE;
	struct setup setup;
	int r;

	r = check_descriptors(learns && !o->has_proposal, err);
	if (r < 0)
		return r;
	ignore_signals();
	umask(077);
	if (command == COMMAND_grant)
		return rest_run(o, ret_status, err);
	r = setup_private(command, o, &setup, err);
	if (r == 0 && learns)
		r = learn_run_begin(o, &setup.config, &learn, err);
	if (r == 0)
		r = rundir_create(o->has_state ? o->state : NULL, &dir, err);
	if (r == 0) {
		log_info("run %s", dir.id);
		r = serve(&setup, &dir, learn.learn, ret_status);
		if (r < 0)
			snprintf(err, DAEMON_ERROR_MAX, "cannot start: out of memory");
	}
	if (r == 0 && learns && *ret_status == 0)
		r = learn_run_end(&learn, err);
	learn_run_finish(&learn);
	rundir_finish(&dir);
	setup_finish(&setup);
	return r;
}
