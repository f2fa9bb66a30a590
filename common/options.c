#include "common/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/nearest.h"
#include "common/options_private.h"
#include "common/util.h"

#define ROW(field, member, name, letter, kind, commands, metavar, max, doc)                    \
	{ name, letter, kind, commands, metavar, max, offsetof(struct options, has_##field),   \
		offsetof(struct options, member), doc },
#define COMMAND(id, name, synopsis, doc)
#define FLAG(f, name, c, cmds, doc)	    ROW(f, f, name, c, OPTION_FLAG, cmds, NULL, 0, doc)
#define STRING(f, name, c, cmds, m, doc)    ROW(f, f, name, c, OPTION_STRING, cmds, m, 0, doc)
#define CHOICE(f, name, c, cmds, m, doc)    ROW(f, f, name, c, OPTION_CHOICE, cmds, m, 0, doc)
#define UINT(f, name, c, cmds, max, m, doc) ROW(f, f, name, c, OPTION_UINT, cmds, m, max, doc)
#define DURATION(f, name, c, cmds, doc)                                                        \
	ROW(f, f##_ms, name, c, OPTION_DURATION, cmds, "DURATION", 0, doc)
#define SIZE(f, name, c, cmds, doc)                                                            \
	ROW(f, f##_bytes, name, c, OPTION_SIZE, cmds, "SIZE", 0, doc)
#define TIME(f, name, c, cmds, doc) ROW(f, f##_ms, name, c, OPTION_TIME, cmds, "TIME", 0, doc)
#define TEXTS(f, name, c, cmds, m, doc) ROW(f, f, name, c, OPTION_TEXTS, cmds, m, 0, doc)
#define ALLOW(f, name, c, cmds, doc)                                                           \
	ROW(f, f, name, c, OPTION_ALLOW, cmds, "ACTION:PATH", 0, doc)
#define MOUNT(f, name, c, cmds, doc) ROW(f, f, name, c, OPTION_MOUNT, cmds, "PATH[:AT]", 0, doc)
#define ENV(f, name, c, to, doc)     ROW(f, f, name, c, OPTION_ENV, to, "NAME[=VALUE]", 0, doc)
const struct option_desc option_descs[] = {
#include "common/options.def"
	{ NULL, 0, OPTION_FLAG, 0, NULL, 0, 0, 0, NULL }
};

#define COMMAND(id, name, synopsis, doc) { name, COMMAND_##id, synopsis, doc },
#define FLAG(f, name, c, cmds, doc)
#define STRING(f, name, c, cmds, m, doc)
#define CHOICE(f, name, c, cmds, m, doc)
#define UINT(f, name, c, cmds, max, m, doc)
#define DURATION(f, name, c, cmds, doc)
#define SIZE(f, name, c, cmds, doc)
#define TIME(f, name, c, cmds, doc)
#define TEXTS(f, name, c, cmds, m, doc)
#define ALLOW(f, name, c, cmds, doc)
#define MOUNT(f, name, c, cmds, doc)
#define ENV(f, name, c, cmds, doc)
const struct command_desc command_descs[] = {
#include "common/options.def"
	{ NULL, 0, NULL, NULL }
};

struct parser {
	enum command command;
	struct options *o;
	char *err;
};

static int __attribute__((format(printf, 2, 3)))
usage_error(struct parser *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->err, OPTIONS_ERROR_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* ---- one option ----------------------------------------------------------------------- */

static int
add_pair(struct parser *p, const struct option_desc *d, struct option_pairs *pairs,
    const char *value)
{
	struct option_pair pair = { NULL, NULL }, *grown;
	cleanup_free char *text = strdup(value);
	const char *fault;

	if (text == NULL)
		return -ENOMEM;
	if (pairs->n == OPTIONS_PAIRS_MAX)
		return usage_error(
		    p, "--%s: given more than %d times", d->name, OPTIONS_PAIRS_MAX);
	fault = options_split(d->kind, text, &pair);
	if (fault != NULL) {
		/* A value may be a secret: of --env only the name is shown (D-12). */
		if (d->kind == OPTION_ENV)
			return usage_error(p, "--%s: \"%.64s\" %s", d->name, pair.left, fault);
		return usage_error(p, "--%s: \"%.200s\" %s", d->name, value, fault);
	}
	grown = reallocarray(pairs->item, pairs->n + 1, sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	pairs->item = grown;
	grown[pairs->n++] = pair;
	text = NULL; /* pair.left owns it */
	return 0;
}

static int
set_number(struct parser *p, const struct option_desc *d, uint64_t *n, const char *value)
{
	const char *what;
	int r;

	switch (d->kind) {
	case OPTION_DURATION:
		r = options_parse_duration(value, n);
		what = "a duration (250ms, 10s, 5m)";
		break;
	case OPTION_SIZE:
		r = options_parse_size(value, n);
		what = "a size (64KiB, 1MiB)";
		break;
	case OPTION_TIME:
		r = options_parse_time(value, n);
		what = "a time (2027-01-01T00:00:00Z)";
		break;
	default:
		r = options_parse_number(value, d->max, n);
		what = "a whole number";
		break;
	}
	if (r == -ERANGE && d->kind == OPTION_UINT)
		return usage_error(
		    p, "--%s: %.64s is more than %ju", d->name, value, (uintmax_t)d->max);
	if (r == -ERANGE)
		return usage_error(p, "--%s: \"%.64s\" is too much", d->name, value);
	if (r < 0)
		return usage_error(p, "--%s: \"%.64s\" is not %s", d->name, value, what);
	if (*n == 0 && d->kind != OPTION_TIME)
		return usage_error(p, "--%s: must be more than 0", d->name);
	return 0;
}

static int
set_option(struct parser *p, const struct option_desc *d, const char *value)
{
	bool *has = (bool *)((char *)p->o + d->has);
	void *field = (char *)p->o + d->value;
	int i;

	if (*has && d->kind < OPTION_TEXTS && d->kind != OPTION_FLAG)
		return usage_error(p, "--%s: given twice", d->name);
	*has = true;
	switch (d->kind) {
	case OPTION_FLAG: *(bool *)field = true; return 0;
	case OPTION_STRING:
		if (*value == '\0')
			return usage_error(p, "--%s: is empty", d->name);
		*(const char **)field = value;
		return 0;
	case OPTION_CHOICE:
		i = options_choice(d->metavar, value);
		if (i < 0)
			return usage_error(
			    p, "--%s: \"%.64s\" is none of %s", d->name, value, d->metavar);
		*(unsigned *)field = (unsigned)i;
		return 0;
	case OPTION_UINT:
	case OPTION_DURATION:
	case OPTION_SIZE:
	case OPTION_TIME: return set_number(p, d, field, value);
	default: return add_pair(p, d, field, value);
	}
}

static const char *
command_name(enum command command)
{
	const struct command_desc *c;

	for (c = command_descs; c->name != NULL; c++)
		if (c->command == command)
			return c->name;
	return "?";
}

static int
check_taken(struct parser *p, const struct option_desc *d)
{
	if (d->commands & p->command)
		return 0;
	return usage_error(p, "--%s: not an option of %s", d->name, command_name(p->command));
}

/*
 * The option with this name, or with this letter: that of our command if there is one, as
 * two commands may have an option of one name with other values.  Its `name` is NULL if
 * there is none.
 */
static const struct option_desc *
find_option(const struct parser *p, const char *name, size_t n, char letter)
{
	const struct option_desc *d, *other = NULL;

	for (d = option_descs; d->name != NULL; d++) {
		if (name != NULL ? strlen(d->name) != n || memcmp(d->name, name, n) != 0
				 : d->letter != letter)
			continue;
		if (d->commands & p->command)
			return d;
		other = d;
	}
	return other != NULL ? other : d;
}

/* No option is called `name`: which of our command's may be meant? */
static int
refuse_unknown(struct parser *p, const char *name, size_t n)
{
	const struct option_desc *d;
	struct nearest s;

	nearest_init(&s, name, n);
	for (d = option_descs; d->name != NULL; d++)
		if (d->commands & p->command)
			nearest_offer(&s, d->name, strlen(d->name));
	if (n > 64)
		n = 64;
	if (s.word == NULL)
		return usage_error(p, "--%.*s: no such option", (int)n, name);
	return usage_error(
	    p, "--%.*s: no such option; did you mean --%s?", (int)n, name, s.word);
}

/* --name, --name=value, --name value.  Returns how many words were used. */
static int
parse_long(struct parser *p, char **argv)
{
	const char *name = argv[0] + 2, *value = NULL;
	size_t n = strcspn(name, "=");
	const struct option_desc *d;
	int r, used = 1;

	d = find_option(p, name, n, 0);
	if (d->name == NULL)
		return refuse_unknown(p, name, n);
	r = check_taken(p, d);
	if (r < 0)
		return r;
	if (name[n] == '=')
		value = name + n + 1;
	if (d->kind == OPTION_FLAG && value != NULL)
		return usage_error(p, "--%s: takes no value", d->name);
	if (d->kind != OPTION_FLAG && value == NULL) {
		value = argv[1];
		used = 2;
	}
	if (d->kind != OPTION_FLAG && value == NULL)
		return usage_error(p, "--%s: needs %s", d->name, d->metavar);
	r = set_option(p, d, value);
	return r < 0 ? r : used;
}

/* -v, -vq, -cFILE, -c FILE.  Returns how many words were used. */
static int
parse_short(struct parser *p, char **argv)
{
	const struct option_desc *d;
	const char *s;
	int r;

	for (s = argv[0] + 1; *s != '\0'; s++) {
		d = find_option(p, NULL, 0, *s);
		if (d->name == NULL)
			return usage_error(
			    p, "-%c: no such option", isprint((unsigned char)*s) ? *s : '?');
		r = check_taken(p, d);
		if (r < 0)
			return r;
		if (d->kind != OPTION_FLAG) {
			const char *value = s[1] != '\0' ? s + 1 : argv[1];

			if (value == NULL)
				return usage_error(p, "-%c: needs %s", *s, d->metavar);
			r = set_option(p, d, value);
			return r < 0 ? r : s[1] != '\0' ? 1 : 2;
		}
		r = set_option(p, d, NULL);
		if (r < 0)
			return r;
	}
	return 1;
}

/* ---- the whole line ------------------------------------------------------------------- */

static int
parse_word(struct parser *p, const char *word)
{
	if (p->command & (COMMAND_run | COMMAND_exec | COMMAND_learn))
		return usage_error(p, "%.64s: a COMMAND stands after --", word);
	if ((p->command & (COMMAND_daemon | COMMAND_doctor | COMMAND_ps | COMMAND_top)) ||
	    p->o->nwords == OPTIONS_WORDS_MAX)
		return usage_error(p, "%.64s: one word too many", word);
	p->o->words[p->o->nwords++] = word;
	return 0;
}

/* `run --socket`: what a chamber is made of is the daemon's configuration. */
static int
check_daemons(struct parser *p)
{
	static const char *const ours[] = { "socket", "runtime", "message", "timeout",
		"max-steps", "max-tool-calls", "output", "verbose", "quiet" };
	const struct option_desc *d;
	size_t i;

	if (p->o->command != NULL)
		return usage_error(p, "--: with --socket the COMMAND is the daemon's");
	for (d = option_descs; d->name != NULL; d++) {
		if (!*(const bool *)((const char *)p->o + d->has))
			continue;
		for (i = 0; i < countof(ours) && strcmp(ours[i], d->name) != 0; i++)
			;
		if (i == countof(ours))
			return usage_error(p, "--%s: is the daemon's to say, with --socket",
			    d->name);
	}
	return 0;
}

static int
check_command(struct parser *p)
{
	const struct options *o = p->o;

	if (o->has_url && o->has_socket)
		return usage_error(p, "--url: is instead of --socket");
	if (!(p->command & (COMMAND_run | COMMAND_exec | COMMAND_learn))) {
		if (o->command != NULL && p->command != COMMAND_send)
			return usage_error(
			    p, "--: %s takes no COMMAND", command_name(p->command));
		if (p->command == COMMAND_daemon && !o->has_config && !o->has_check &&
		    !o->show && !o->doctor)
			return usage_error(p, "caissond: needs -c FILE, what it serves");
		if (p->command == COMMAND_grant && o->has_state && !o->has_config)
			return usage_error(
			    p, "--state: needs -c FILE, whose namespace is in it");
		return 0;
	}
	if (o->command != NULL && (o->ncommand == 0 || *o->command[0] == '\0'))
		return usage_error(p, "--: no COMMAND behind it");
	if (p->command != COMMAND_run && o->command == NULL)
		return usage_error(p, "%s: needs -- COMMAND", command_name(p->command));
	if (o->has_onto && o->has_profile)
		return usage_error(p, "--profile: the base is that of --onto");
	if (o->has_runtime && o->command != NULL)
		return usage_error(p, "--runtime: the COMMAND is the configuration's");
	if (p->command == COMMAND_run && o->has_socket)
		return check_daemons(p);
	if (o->has_runtime && !o->has_config)
		return usage_error(p, "--runtime: needs -c FILE, which defines it");
	if (p->command == COMMAND_run && o->command == NULL && !o->has_config)
		return usage_error(p, "run: needs -- COMMAND or -c FILE");
	if (o->has_app && o->command == NULL)
		return usage_error(p, "--app: needs -- COMMAND");
	return 0;
}

/* What the environment says, where the line does not. */
static void
add_environment(struct parser *p)
{
	struct options *o = p->o;
	const char *config = getenv("CAISSON_CONFIG"), *state = getenv("CAISSON_STATE"),
		   *path = getenv("CAISSON_SOCKET"), *url = getenv("CAISSON_URL"),
		   *log = getenv(LOG_ENV);

	if (p->command == COMMAND_daemon && !o->has_log && log != NULL &&
	    strcmp(log, "json") == 0) {
		o->has_log = true;
		o->log = LOG_JSON;
	}

	/* A turn goes to a daemon only where the line says so; the rest is the daemon's.  And
	 * who names a daemon on the line does not mean the file of another one. */
	if (o->has_socket && (p->command == COMMAND_run ||
				 (p->command == COMMAND_grant && !o->has_config)))
		return;
	if (!o->has_config && config != NULL && *config != '\0' &&
	    !(p->command & (COMMAND_exec | COMMAND_learn) || o->command != NULL)) {
		o->has_config = true;
		o->config = config;
	}
	if (!o->has_state && state != NULL && *state != '\0' &&
	    (p->command != COMMAND_grant || o->has_config)) {
		o->has_state = true;
		o->state = state;
	}
	if (p->command & COMMAND_remote && !o->has_url && !o->has_socket && url != NULL &&
	    *url != '\0') {
		o->has_url = true;
		o->url = url;
	}
	if (p->command & (COMMAND_grant | COMMAND_ps | COMMAND_top | COMMAND_remote |
			       COMMAND_daemon) &&
	    !o->has_socket && !o->has_url && path != NULL && *path != '\0') {
		o->has_socket = true;
		o->socket = path;
	}
}

int
options_parse(enum command command, int argc, char **argv, struct options *ret,
    char err[OPTIONS_ERROR_MAX])
{
	struct parser p = { command, ret, err };
	bool words_only = false;
	int i, r;

	memset(ret, 0, sizeof(*ret));
	strlcpy(err, "out of memory", OPTIONS_ERROR_MAX);
	for (i = 1; i < argc && !ret->help && !ret->version; i += r) {
		r = 1;
		if (strcmp(argv[i], "--") == 0 && !words_only) {
			words_only = true;
			if (command == COMMAND_grant) /* an id may look like an option */
				continue;
			ret->command = argv + i + 1;
			ret->ncommand = (size_t)(argc - i - 1);
			break;
		}
		if (words_only || argv[i][0] != '-' || argv[i][1] == '\0')
			r = parse_word(&p, argv[i]) < 0 ? -EINVAL : 1;
		else if (argv[i][1] == '-')
			r = parse_long(&p, argv + i);
		else
			r = parse_short(&p, argv + i);
		if (r < 0)
			return r;
	}
	if (ret->help || ret->version)
		return 0;
	add_environment(&p);
	return check_command(&p);
}

static void
pairs_finish(struct option_pairs *pairs)
{
	size_t i;

	for (i = 0; i < pairs->n; i++)
		free(pairs->item[i].left);
	free(pairs->item);
	memset(pairs, 0, sizeof(*pairs));
}

void
options_finish(struct options *o)
{
	const struct option_desc *d;

	for (d = option_descs; d->name != NULL; d++)
		if (d->kind >= OPTION_TEXTS)
			pairs_finish((struct option_pairs *)(void *)((char *)o + d->value));
}

enum command
options_command(const char *name)
{
	const struct command_desc *c;

	for (c = command_descs; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c->command;
	return 0;
}
