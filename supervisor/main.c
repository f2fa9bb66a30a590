/*
 * caissond: the supervisor.
 *
 * May: open files and sockets, create links, start and confine processes, kill them, hand
 * descriptors over.  Reads: its own command line and configuration, fixed-size structs of the
 * broker and the launcher, child exits, credentials of a socket's peer.
 * Never: unpacks a frame, reads a link, a pipe or a client.
 *
 * `caissond --private run|exec ...` is started by `caisson run` and `exec` in a session of its
 * own, with the descriptors PRIVATE_FD_* of common/child.h, and ends with its client.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/log.h"
#include "common/options.h"
#include "common/sanitizer.h"
#include "common/util.h"
#include "supervisor/host.h"
#include "supervisor/launch.h"
#include "supervisor/setup.h"
#include "supervisor/state.h"

SANITIZER_DEFAULTS

static struct options options;
static struct conf_namespace config;
static char err[CONF_ERROR_MAX > STATE_ERROR_MAX ? CONF_ERROR_MAX : STATE_ERROR_MAX];

static void
set_level(void)
{
	log_init("caissond", options.verbose ? LOG_DEBUG_
			     : options.quiet ? LOG_ERROR_
					     : LOG_WARN_);
}

/* ---- a configuration, and nothing started ------------------------------------------ */

static void
open_config(const char *path)
{
	if (conf_open(path, &config, err) < 0 || conf_resolve(&config, path, err) < 0)
		fatal("%s", err);
}

static int
check_config(const char *path)
{
	open_config(path);
	printf("%s: valid: %zu runtimes, %zu providers, %zu tools, %zu grants\n", path,
	    config.runtimes.n, config.providers.n, config.tools.n, config.grants.n);
	conf_finish(&config);
	return 0;
}

static int
show_config(void)
{
	if (options.has_config)
		open_config(options.config);
	else if (conf_init(&config) < 0 || conf_complete(&config, NULL, err) < 0)
		fatal("out of memory");
	conf_show(stdout, &config);
	conf_finish(&config);
	return 0;
}

/* ---- a private run ----------------------------------------------------------------- */

/* Layers that newer kernels, or root, would add. */
static void
say_what_is_absent(void)
{
	const char *p = launch_absent();
	size_t n;

	for (; *p != '\0'; p += n + (p[n] == '\n')) {
		n = strcspn(p, "\n");
		log_info("not on this machine: %.*s", (int)n, p);
	}
}

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
static void
check_descriptors(void)
{
	struct stat control, life;

	if (fstat(PRIVATE_FD_CONTROL, &control) < 0 || !S_ISSOCK(control.st_mode) ||
	    fstat(PRIVATE_FD_LIFE, &life) < 0 || !S_ISFIFO(life.st_mode) ||
	    fcntl(PRIVATE_FD_CONTROL, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(PRIVATE_FD_LIFE, F_SETFD, FD_CLOEXEC) < 0)
		fatal("--private: is started by caisson run and caisson exec only");
	closefrom(PRIVATE_FD_LIFE + 1);
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
loop(const struct setup *setup, struct rundir *dir)
{
	struct private_run run = { .base = event_base_new(), .status = 125 };
	struct host_options o = {
		.config = &setup->config,
		.facts = { .kind = setup->kind,
		    .timeout_ms = setup->timeout_ms,
		    .operator_uid = geteuid(),
		    .key = dir->key },
		.run = dir,
		.client_fd = PRIVATE_FD_CONTROL,
		.on_done = run_on_done,
		.arg = &run,
	};

	if (run.base) {
		run.life = event_new(
		    run.base, PRIVATE_FD_LIFE, EV_READ | EV_PERSIST, run_on_life, &run);
		run.term = evsignal_new(run.base, SIGTERM, run_on_term, &run);
	}
	if (!run.life || !run.term || event_add(run.life, NULL) < 0 ||
	    event_add(run.term, NULL) < 0)
		fatal("cannot start the event loop: out of memory");
	run.host = host_create(run.base, &o);
	if (!run.host)
		fatal("cannot start: out of memory");
	event_base_dispatch(run.base);
	host_destroy(run.host);
	event_free(run.life);
	event_free(run.term);
	event_base_free(run.base);
	return run.status;
}

static int
private_main(int argc, char **argv)
{
	enum command command = argc > 0 ? options_command(argv[0]) : 0;
	struct rundir dir;
	struct setup setup;
	int status;

	if (command != COMMAND_run && command != COMMAND_exec)
		fatal("--private: expected run or exec");
	if (options_parse(command, argc, argv, &options, err) < 0)
		fatal("%s", err);
	set_level();
	check_descriptors();
	ignore_signals();
	umask(077);
	if (setup_private(command, &options, &setup, err) < 0)
		fatal("%s", err);
	if (rundir_create(options.has_state ? options.state : NULL, &dir, err) < 0)
		fatal("%s", err);
	log_info("run %s", dir.id);
	say_what_is_absent();
	status = loop(&setup, &dir);
	rundir_finish(&dir);
	setup_finish(&setup);
	options_finish(&options);
	return status;
}

int
main(int argc, char **argv)
{
	log_init("caissond", LOG_WARN_);
	if (argc > 1 && !strcmp(argv[1], "--private"))
		return private_main(argc - 2, argv + 2);
	if (options_parse(COMMAND_daemon, argc, argv, &options, err) < 0)
		fatal("%s", err);
	set_level();
	if (options.version) {
		printf("caissond " VERSION "\n");
		return 0;
	}
	if (options.help) {
		options_usage(stdout, "", COMMAND_daemon);
		return 0;
	}
	if (options.has_check)
		return check_config(options.check);
	if (options.show)
		return show_config();
	options_usage(stderr, "", COMMAND_daemon);
	return 125;
}
