/*
 * options: the command line of options.def, parsed.
 *
 * Data and checks only: no I/O but options_usage(), no logging, no exit.  The client and
 * caissond parse the same words with the same table (`caissond --private run ...`), so
 * neither needs to trust or to repeat the other's reading.  Values are borrowed from argv
 * and the environment, which must live on; what had to be split is owned.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define OPTIONS_PAIRS_MAX 64 /* values of one repeatable option */
#define OPTIONS_WORDS_MAX 4 /* words that are not options, before -- */
#define OPTIONS_ERROR_MAX 512 /* bytes of an error line, NUL included */

#define COMMAND(id, name, synopsis, doc) COMMAND_NR_##id,
#define FLAG(field, name, letter, commands, doc)
#define STRING(field, name, letter, commands, metavar, doc)
#define CHOICE(field, name, letter, commands, words, doc)
#define UINT(field, name, letter, commands, max, metavar, doc)
#define DURATION(field, name, letter, commands, doc)
#define SIZE(field, name, letter, commands, doc)
#define TIME(field, name, letter, commands, doc)
#define TEXTS(field, name, letter, commands, metavar, doc)
#define ALLOW(field, name, letter, commands, doc)
#define MOUNT(field, name, letter, commands, doc)
#define ENV(field, name, letter, commands, doc)
enum {
#include "common/options.def"
	COMMAND_NR_MAX
};

/* COMMAND_run, COMMAND_exec, ...: masks, because a row may name several. */
enum command {
	COMMAND_run = 1 << COMMAND_NR_run,
	COMMAND_exec = 1 << COMMAND_NR_exec,
	COMMAND_learn = 1 << COMMAND_NR_learn,
	COMMAND_audit = 1 << COMMAND_NR_audit,
	COMMAND_grant = 1 << COMMAND_NR_grant,
	COMMAND_ps = 1 << COMMAND_NR_ps,
	COMMAND_top = 1 << COMMAND_NR_top,
	COMMAND_session = 1 << COMMAND_NR_session,
	COMMAND_send = 1 << COMMAND_NR_send,
	COMMAND_receive = 1 << COMMAND_NR_receive,
	COMMAND_cancel = 1 << COMMAND_NR_cancel,
	COMMAND_logs = 1 << COMMAND_NR_logs,
	/* those that speak to a daemon or to its gateway */
	COMMAND_remote = COMMAND_session | COMMAND_send | COMMAND_receive | COMMAND_cancel |
	    COMMAND_logs,
	COMMAND_config = 1 << COMMAND_NR_config,
	COMMAND_doctor = 1 << COMMAND_NR_doctor,
	COMMAND_daemon = 1 << COMMAND_NR_daemon,
	COMMAND_all = (1 << COMMAND_NR_MAX) - 1,
};

/* For CHOICE(output): */
enum { OUTPUT_HUMAN, OUTPUT_JSONL };
/* For CHOICE(report): */
enum { REPORT_HUMAN, REPORT_JSON };

/* One value of a repeatable option. */
struct option_pair {
	char *left; /* TEXTS: the text; ALLOW: action; MOUNT: path outside; ENV: name */
	/* ALLOW: path; MOUNT: path inside, NULL: the same; ENV: value, NULL: the caller's */
	char *right;
};

struct option_pairs {
	struct option_pair *item;
	size_t n;
};

/*
 * `has_<field>` is true for what was given (or came from the environment); without it the
 * field is 0, false or NULL.
 */
struct options {
	/* "show", a file: only audit, config and grant take any */
	const char *words[OPTIONS_WORDS_MAX];
	size_t nwords;
	char **command; /* what stands after --, NULL-terminated; NULL if there was no -- */
	size_t ncommand;
#define COMMAND(id, name, synopsis, doc)
#define FLAG(field, name, letter, commands, doc)		bool has_##field; bool field;
#define STRING(field, name, letter, commands, metavar, doc)	bool has_##field; const char *field;
#define CHOICE(field, name, letter, commands, words, doc)	bool has_##field; unsigned field;
#define UINT(field, name, letter, commands, max, metavar, doc)	bool has_##field; uint64_t field;
#define DURATION(field, name, letter, commands, doc)		bool has_##field; uint64_t field##_ms;
#define SIZE(field, name, letter, commands, doc)		bool has_##field; uint64_t field##_bytes;
#define TIME(field, name, letter, commands, doc)		bool has_##field; uint64_t field##_ms;
#define TEXTS(field, name, letter, commands, metavar, doc)	bool has_##field; struct option_pairs field;
#define ALLOW(field, name, letter, commands, doc)		bool has_##field; struct option_pairs field;
#define MOUNT(field, name, letter, commands, doc)		bool has_##field; struct option_pairs field;
#define ENV(field, name, letter, commands, doc)			bool has_##field; struct option_pairs field;
#include "common/options.def"
};

enum option_kind {
	OPTION_FLAG,
	OPTION_STRING,
	OPTION_CHOICE,
	OPTION_UINT,
	OPTION_DURATION,
	OPTION_SIZE,
	OPTION_TIME,
	OPTION_TEXTS, /* from here on repeatable */
	OPTION_ALLOW,
	OPTION_MOUNT,
	OPTION_ENV,
};

struct option_desc {
	const char *name; /* without its dashes; NULL ends the list */
	char letter; /* 0: none */
	enum option_kind kind;
	unsigned commands;
	const char *metavar; /* CHOICE: the words, with | between them; NULL for a FLAG */
	uint64_t max; /* UINT */
	size_t has, value; /* offsets in struct options */
	const char *doc;
};
extern const struct option_desc option_descs[];

struct command_desc {
	const char *name; /* NULL ends the list */
	enum command command;
	const char *synopsis, *doc;
};
extern const struct command_desc command_descs[];

/*
 * Parses argv[1..argc), argv[0] being the command's own word.  Returns 0 and fills `ret`;
 * -EINVAL or -ENOMEM, with one line in `err` that names the option and what is wrong with
 * it.  With --help or --version the rest is not checked.  `ret` can be finished either way.
 * D-17's rules of what needs what (a COMMAND, a configuration) are checked here, too.
 */
int options_parse(enum command command, int argc, char **argv, struct options *ret,
    char err[OPTIONS_ERROR_MAX]);
void options_finish(struct options *o);

/* Prints synopsis and options of `command`; `program` stands before its name. */
void options_usage(FILE *f, const char *program, enum command command);
/* The command with that name; 0 if there is none. */
enum command options_command(const char *name);

/*
 * The values, for configuration files too.  The whole text must be one value.  Return 0, or
 * -EINVAL (not in that form), -ERANGE (over UINT32_MAX ms, INT64_MAX bytes, `max`).
 *
 *     duration  250ms, 10s, 5m, 2h
 *     size      512B, 64KiB, 1MiB, 2GiB, 1TiB
 *     time      2027-01-01T00:00:00Z: RFC 3339, in UTC, whole seconds
 */
int options_parse_number(const char *text, uint64_t max, uint64_t *ret);
int options_parse_duration(const char *text, uint64_t *ret_ms);
int options_parse_size(const char *text, uint64_t *ret_bytes);
int options_parse_time(const char *text, uint64_t *ret_ms);
/* What is wrong with one segment of a path (TU-35), static text; NULL if nothing is. */
const char *options_segment_fault(const char *s, size_t n);
/* What is wrong with an address kind:id; NULL if nothing is. */
const char *options_address_fault(const char *s);
/*
 * The next segment of a path of --allow, in which "docs/", "./docs" and "docs" are one: moves
 * `*path` behind it.  Returns its length; 0: there is none left.
 */
size_t options_next_segment(const char **path, const char **ret);

#endif /* COMMON_OPTIONS_H */
