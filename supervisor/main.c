/*
 * caissond: the supervisor.
 *
 * May: open files and sockets, create links, start and confine processes, kill them, hand
 * descriptors over.  Reads: its own command line and configuration, fixed-size structs of the
 * broker and the launcher, child exits, credentials of a socket's peer.
 * Never: unpacks a frame, reads a link, a pipe or a client.
 *
 * `caissond -c FILE` serves one namespace (daemon.h).  `caissond --private COMMAND ...`, which
 * is run, exec, learn or grant, is started by `caisson` with these words and ends with its
 * client (private.h).
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/options.h"
#include "common/rlimit.h"
#include "common/sanitizer.h"
#include "supervisor/check.h"
#include "supervisor/config.h"
#include "supervisor/daemon.h"
#include "supervisor/doctor/doctor.h"
#include "supervisor/launch.h"
#include "supervisor/private.h"

SANITIZER_DEFAULTS

static struct options options;
static struct conf_namespace config;
static char err[DAEMON_ERROR_MAX];
static const char *own_name = "caissond";

static void
set_level(enum log_level usual)
{
	log_init(own_name, options.verbose ? LOG_DEBUG_ : options.quiet ? LOG_ERROR_ : usual);
	/* A private run's lines are its caller's, whatever is said of daemons. */
	log_set_format(options.has_log ? (enum log_format)options.log : LOG_TEXT);
}

/* ---- a configuration, and nothing served -------------------------------------------- */

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
	signal(SIGPIPE, SIG_IGN);
	if (check_with_broker(&config, path, CHECK_ANSWER_MS, err) < 0)
		fatal("%s", err);
	printf("%s: valid: runtimes %zu, providers %zu, tools %zu, grants %zu\n", path,
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

/* ---- a private run, a daemon ------------------------------------------------------- */

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

static int
run_private(int argc, char **argv)
{
	enum command command = argc > 0 ? options_command(argv[0]) : 0;
	int status;

	if (!(command & (COMMAND_run | COMMAND_exec | COMMAND_learn | COMMAND_grant)))
		fatal("--private: expected run, exec, learn or grant");
	if (options_parse(command, argc, argv, &options, err) < 0)
		fatal("%s", err);
	set_level(LOG_WARN_);
	say_what_is_absent();
	if (private_run(command, &options, &status, err) < 0)
		fatal("%s", err);
	options_finish(&options);
	return status;
}

static int
run_daemon(void)
{
	int status;

	set_level(LOG_INFO_);
	say_what_is_absent();
	if (daemon_run(&options, &status, err) < 0)
		fatal("%s", err);
	options_finish(&options);
	return status;
}

int
main(int argc, char **argv)
{
	/* A command of caisson's that we are: what its caller typed is what speaks. */
	if (argc > 0 && (!strcmp(argv[0], "caisson config") || !strcmp(argv[0], "caisson doctor")))
		own_name = argv[0];
	log_init(own_name, LOG_WARN_);
	log_set_format(LOG_TEXT);
	rlimit_raise_descriptors();
	if (argc > 1 && !strcmp(argv[1], "--private"))
		return run_private(argc - 2, argv + 2);
	if (options_parse(COMMAND_daemon, argc, argv, &options, err) < 0)
		fatal("%s", err);
	set_level(LOG_WARN_);
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
	if (options.doctor)
		return doctor_main(options.state, options.report == REPORT_JSON,
		    options.verbose);
	return run_daemon();
}
