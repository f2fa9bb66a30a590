/*
 * caisson: the command that people call.  A client like any other: it asks a broker, shows
 * what it says, and enforces nothing.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/audit.h"
#include "client/exec.h"
#include "client/grant.h"
#include "client/learn.h"
#include "client/logs.h"
#include "client/private.h"
#include "client/ps.h"
#include "client/render.h"
#include "client/run.h"
#include "client/send.h"
#include "client/session.h"
#include "client/text.h"
#include "client/top.h"
#include "client/verb.h"
#include "common/nearest.h"
#include "common/options.h"
#include "common/sanitizer.h"
#include "common/util.h"

SANITIZER_DEFAULTS

/* Becomes `caissond` with these words, which end with NULL; the first is what it calls itself. */
static int
become_supervisor(const char **words)
{
	cleanup_free char *path = private_program();

	if (path != NULL)
		execv(path, (char **)(uintptr_t)words);
	text_say("cannot start caissond: %s", strerror(errno));
	return EXIT_CANNOT;
}

static const char *
config_verb(size_t i)
{
	static const char *const verbs[] = { "check FILE", "show [-c FILE]" };

	return i < countof(verbs) ? verbs[i] : NULL;
}

/* Says what is wrong with the words of `config`. */
static int
config_refuse(const struct options *o)
{
	const char *word = o->nwords > 0 ? o->words[0] : NULL;
	char err[VERB_FAULT_MAX];

	/* A verb with too few words, or too many, is none that is not known. */
	if (word != NULL && (strcmp(word, "check") == 0 || strcmp(word, "show") == 0))
		word = NULL;
	verb_fault("config", config_verb, word, err);
	text_say("%s", err);
	return EXIT_CANNOT;
}

/* `caissond` knows what a configuration is; this process never reads one. */
static int
config_main(const struct options *o, int argc, char **argv)
{
	const char *words[5] = { "caisson config" };
	size_t n = 1;

	(void)argc;
	(void)argv;
	if (o->nwords == 2 && strcmp(o->words[0], "check") == 0) {
		words[n++] = "--check";
		words[n++] = o->words[1];
	} else if (o->nwords == 1 && strcmp(o->words[0], "show") == 0) {
		words[n++] = "--show";
		if (o->has_config) {
			words[n++] = "--config";
			words[n++] = o->config;
		}
	} else {
		return config_refuse(o);
	}
	return become_supervisor(words);
}

/* What launches chambers can say what it would meet. */
static int
doctor_main(const struct options *o, int argc, char **argv)
{
	const char *words[8] = { "caisson doctor", "--doctor" };
	size_t n = 2;

	(void)argc;
	(void)argv;
	if (o->has_report) {
		words[n++] = "--output";
		words[n++] = o->report == REPORT_JSON ? "json" : "human";
	}
	if (o->has_state) {
		words[n++] = "--state";
		words[n++] = o->state;
	}
	if (o->verbose)
		words[n++] = "--verbose";
	return become_supervisor(words);
}

static const struct {
	enum command command;
	int (*main)(const struct options *o, int argc, char **argv);
} commands[] = {
	{ COMMAND_run, run_main },
	{ COMMAND_exec, exec_main },
	{ COMMAND_learn, learn_main },
	{ COMMAND_audit, audit_main },
	{ COMMAND_grant, grant_main },
	{ COMMAND_ps, ps_main },
	{ COMMAND_top, top_main },
	{ COMMAND_session, session_main },
	{ COMMAND_send, send_main },
	{ COMMAND_receive, receive_main },
	{ COMMAND_cancel, cancel_main },
	{ COMMAND_logs, logs_main },
	{ COMMAND_config, config_main },
	{ COMMAND_doctor, doctor_main },
};

static void
print_commands(FILE *f)
{
	const struct command_desc *d;
	size_t i;

	fputs("usage: caisson COMMAND ...\n\n", f);
	for (d = command_descs; d->name != NULL; d++)
		for (i = 0; i < countof(commands); i++)
			if (commands[i].command == d->command)
				fprintf(f, "  %-8s  %s\n", d->name, d->doc);
	fputs("  help      this, or the options of a COMMAND\n"
	      "  version   print the version\n",
	    f);
}

/* The word of commands[i]. */
static const char *
command_word(size_t i)
{
	const struct command_desc *d;

	for (d = command_descs; d->command != commands[i].command; d++)
		assert(d->name != NULL);
	return d->name;
}

static int (*find_command(const char *name, enum command *ret))(
    const struct options *o, int argc, char **argv)
{
	size_t i;

	*ret = options_command(name);
	for (i = 0; i < countof(commands); i++)
		if (commands[i].command == *ret)
			return commands[i].main;
	return NULL;
}

/* Says that there is no such command, and which may be meant.  `where`: "" or "help: ". */
static int
refuse_command(const char *where, const char *name)
{
	static const char *const others[] = { "help", "version", "--help", "--version" };
	struct nearest s;
	size_t i;

	nearest_init(&s, name, strlen(name));
	for (i = 0; i < countof(commands); i++)
		nearest_offer(&s, command_word(i), strlen(command_word(i)));
	for (i = 0; i < countof(others); i++)
		nearest_offer(&s, others[i], strlen(others[i]));
	if (s.word != NULL)
		text_say("%sno command %.64s; did you mean %s?", where, name, s.word);
	else if (name[0] == '-')
		text_say("%sno command %.64s; options stand behind the COMMAND", where, name);
	else
		text_say("%sno command %.64s; `caisson help` lists them", where, name);
	return EXIT_CANNOT;
}

static int
print_version(void)
{
	puts("caisson " VERSION);
	return 0;
}

static int
print_help(const char *name)
{
	enum command command;

	if (name == NULL) {
		print_commands(stdout);
		return 0;
	}
	if (find_command(name, &command) == NULL)
		return refuse_command("help: ", name);
	options_usage(stdout, "caisson", command);
	return 0;
}

/* A closed 0, 1 or 2 would be the number of the next thing opened. */
static void
open_standard_streams(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int
run_command(int argc, char **argv)
{
	int (*main_of)(const struct options *, int, char **);
	char err[OPTIONS_ERROR_MAX];
	enum command command;
	struct options o;
	int status;

	main_of = find_command(argv[0], &command);
	if (main_of == NULL)
		return refuse_command("", argv[0]);
	if (options_parse(command, argc, argv, &o, err) < 0) {
		text_say("%s", err);
		status = EXIT_CANNOT;
	} else if (o.help) {
		status = print_help(argv[0]);
	} else if (o.version) {
		status = print_version();
	} else {
		status = main_of(&o, argc, argv);
	}
	options_finish(&o);
	return status;
}

int
main(int argc, char **argv)
{
	open_standard_streams();
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		print_commands(stderr);
		return EXIT_CANNOT;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0)
		return print_version();
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help(NULL);
	if (strcmp(argv[1], "help") == 0)
		return print_help(argc > 2 ? argv[2] : NULL);
	return run_command(argc - 1, argv + 1);
}
