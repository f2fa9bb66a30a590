#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log_line.h"
#include "common/util.h"

#define TEXT_BYTES  1024 /* of a line as text; as JSON its message may be as long */
#define IDS_MAX	    4
#define IDS_BYTES   600 /* of all of them in a line */
#define SITES_MAX   64
#define EXIT_CANNOT 125

static const char *log_name = "caisson";
static enum log_level log_level = LOG_INFO_;
static enum log_format log_format;
static const char *const level_names[] = {
	[LOG_ERROR_] = "error",
	[LOG_WARN_] = "warning",
	[LOG_INFO_] = "info",
	[LOG_DEBUG_] = "debug",
};

static struct {
	const char *kind, *id;
} ids[IDS_MAX];
static unsigned nids;

/* How much one call site has said of late; its format is what it is known by. */
struct site {
	const char *fmt; /* NULL: free */
	uint64_t at_ms;	 /* what `left` is of */
	unsigned left;	 /* lines that may come at once */
	unsigned long suppressed;
};
static struct site sites[SITES_MAX];

/* ---- how much ---------------------------------------------------------------------- */

/* The last of a full table is shared by all that found no place. */
static struct site *
site_of(const char *fmt, uint64_t now_ms)
{
	size_t i;

	for (i = 0; i < SITES_MAX - 1 && sites[i].fmt && sites[i].fmt != fmt; i++)
		;
	if (!sites[i].fmt)
		sites[i] = (struct site){ .fmt = fmt, .at_ms = now_ms, .left = LOG_BURST };
	return &sites[i];
}

/* May it come?  Then with how many that did not, before it. */
static bool
may_come(const char *fmt, unsigned long *ret_suppressed)
{
	uint64_t now_ms = clock_ms();
	struct site *s = site_of(fmt, now_ms);
	uint64_t more = (now_ms - s->at_ms) / LOG_REFILL_MS;

	s->at_ms += more * LOG_REFILL_MS;
	s->left = more >= LOG_BURST - s->left ? LOG_BURST : s->left + (unsigned)more;
	if (s->left == 0) {
		s->suppressed++;
		return false;
	}
	s->left--;
	*ret_suppressed = s->suppressed;
	s->suppressed = 0;
	return true;
}

/* ---- one line ---------------------------------------------------------------------- */

static void
add(struct log_line *l, const char *text)
{
	log_line_add(l, text, strlen(text));
}

/* The inside of a string between what stands before it and its end; false: no room for all. */
static bool
add_string(struct log_line *l, const char *before, const char *value)
{
	return log_line_add(l, before, strlen(before)) && log_line_add_json(l, value) &&
	       log_line_add(l, "\"", 1);
}

/* All, or none if they are too long. */
static void
add_ids(struct log_line *l)
{
	size_t n = l->n, cap = l->cap;
	unsigned i;
	bool fits = true;

	l->cap = n + IDS_BYTES;
	for (i = 0; i < nids && fits; i++)
		fits = add_string(l, i == 0 ? ",\"ids\":{\"" : ",\"", ids[i].kind) &&
		       add_string(l, ":\"", ids[i].id);
	l->cap = cap;
	if (!fits)
		l->n = n;
	else if (nids > 0)
		add(l, "}");
}

static void
fill_json(struct log_line *l, enum log_level level, const char *text, bool cut)
{
	char pid[40];

	l->cap = sizeof(l->text) - sizeof("...\"}\n");
	add(l, "{\"ts\":\"");
	log_line_add_instant(l, clock_wall_ms());
	add_string(l, "\",\"level\":\"", level_names[level]);
	add_string(l, ",\"process\":\"", log_name);
	snprintf(pid, sizeof pid, ",\"pid\":%d", (int)getpid());
	add(l, pid);
	add_ids(l);
	add(l, ",\"msg\":\"");
	cut |= !log_line_add_json(l, text);
	l->cap = sizeof(l->text);
	add(l, cut ? "...\"}\n" : "\"}\n");
}

static void
fill_text(struct log_line *l, enum log_level level, const char *text, bool cut)
{
	l->cap = TEXT_BYTES - sizeof("...");
	cut = !log_line_add_text(l, log_name) || !log_line_add(l, ": ", 2) ||
	      !log_line_add_text(l, level_names[level]) || !log_line_add(l, ": ", 2) ||
	      !log_line_add_text(l, text) || cut;
	l->cap = TEXT_BYTES;
	add(l, cut ? "...\n" : "\n");
}

static void
write_line(enum log_level level, const char *text, bool cut)
{
	struct log_line l = { .n = 0 };
	ssize_t ignored;

	if (log_format == LOG_JSON)
		fill_json(&l, level, text, cut);
	else
		fill_text(&l, level, text, cut);
	/* Nobody could be told of a failure here. */
	ignored = write(STDERR_FILENO, l.text, l.n);
	(void)ignored;
}

static void
log_args(enum log_level level, const char *fmt, va_list ap)
{
	char text[TEXT_BYTES];
	unsigned long suppressed;
	int saved = errno, n;

	if (level <= log_level && may_come(fmt, &suppressed)) {
		if (suppressed > 0) {
			snprintf(text, sizeof text, "suppressed %lu lines like the next one",
			    suppressed);
			write_line(level, text, false);
		}
		n = vsnprintf(text, sizeof text, fmt, ap);
		if (n < 0)
			text[0] = '\0';
		write_line(level, text, n >= (int)sizeof text);
	}
	nids = 0;
	errno = saved;
}

/* ---- for everybody ----------------------------------------------------------------- */

void
log_init(const char *name, enum log_level level)
{
	const char *format = getenv(LOG_ENV);

	memset(sites, 0, sizeof sites);
	log_name = name;
	log_level = level;
	log_format = format && !strcmp(format, "json") ? LOG_JSON : LOG_TEXT;
}

void
log_set_format(enum log_format format)
{
	log_format = format;
}

enum log_format
log_get_format(void)
{
	return log_format;
}

void
log_id(const char *kind, const char *id)
{
	if (nids == IDS_MAX)
		return;
	ids[nids].kind = kind;
	ids[nids++].id = id;
}

#define LOG_FUNCTION(function, level)	\
	void				\
	function(const char *fmt, ...)	\
	{				\
		va_list ap;		\
					\
		va_start(ap, fmt);	\
		log_args(level, fmt, ap);	\
		va_end(ap);		\
	}

LOG_FUNCTION(log_error, LOG_ERROR_)
LOG_FUNCTION(log_warn, LOG_WARN_)
LOG_FUNCTION(log_info, LOG_INFO_)
LOG_FUNCTION(log_debug, LOG_DEBUG_)

void
fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_args(LOG_ERROR_, fmt, ap);
	va_end(ap);
	exit(EXIT_CANNOT);
}
