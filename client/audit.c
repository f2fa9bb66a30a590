#include "client/audit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/audit_ledger.h"
#include "client/audit_render.h"
#include "client/text.h"
#include "client/verb.h"
#include "common/hex.h"
#include "common/options.h"
#include "common/state_dir.h"
#include "common/util.h"

#define EXIT_INVALID 1
#define EXIT_UNABLE  125
#define PAGE	     1000 /* records asked for at once */
#define NAME_LEN     256

/* The places where records lie, beneath the state directory. */
static const char *const places[] = { "namespaces", "runs" };

struct audit {
	const struct audit_options *o;
	const char *state_dir;
	unsigned found; /* directories with a journal */
	int status;
	bool colour;
	bool unread; /* standard output takes no more */
	/* The directory that is being shown. */
	const char *name;
	uint64_t next;
	uint64_t shown;
};

/*
 * At once, so that a reader who left is noticed before the next record is read.  What cannot be
 * written is the end of it: false.  Only a reader who left is no mistake.
 */
static bool
write_out(struct audit *a, struct buf *b)
{
	int error = b->failed ? ENOMEM : 0;

	/* nothing has no address */
	if (error == 0 && b->n > 0 &&
	    (fwrite(b->p, 1, b->n, stdout) != b->n || fflush(stdout) != 0))
		error = errno;
	a->unread = error != 0;
	if (error != 0 && error != EPIPE) {
		text_say("audit: cannot write: %s", strerror(error));
		a->status = EXIT_UNABLE;
	}
	buf_finish(b);
	*b = (struct buf){ 0 };
	return error == 0;
}

static void
on_records(void *arg, const struct message *m)
{
	const struct msg_audit_read_reply *r = &m->u.audit_read_reply;
	struct audit *a = arg;
	struct buf out = { 0 };

	if (a->shown == 0 && r->records.n > 1 && !a->o->jsonl)
		audit_render_name(slice_of(a->name), a->colour, &out);
	a->shown +=
	    audit_render_records(r->records, slice_of(a->name), a->o->jsonl, a->colour, &out);
	a->next = r->next;
	/* What stands is shown; that it is not all, a script has to learn, too. */
	if (r->has_problem && a->status == 0)
		a->status = EXIT_INVALID;
	if (!write_out(a, &out))
		a->next = 0;
}

static int
show(struct audit *a, struct audit_ledger *l)
{
	struct msg_audit_read ask = a->o->filter;
	int ret;

	ask.cursor = 0;
	ask.limit = PAGE;
	a->shown = 0;
	do {
		ret = audit_ledger_ask(l, MSG_audit_read, &ask, on_records, a);
		ask.cursor = a->next;
	} while (ret == 0 && a->next != 0);
	return ret;
}

static void
on_verdict(void *arg, const struct message *m)
{
	struct audit *a = arg;
	struct buf out = { 0 };

	if (!m->u.audit_verify_reply.valid && a->status == 0)
		a->status = EXIT_INVALID;
	audit_render_verdict(
	    &m->u.audit_verify_reply, slice_of(a->name), a->o->jsonl, a->colour, &out);
	write_out(a, &out);
}

static int
verify(struct audit *a, struct audit_ledger *l)
{
	struct msg_audit_verify ask = { 0 };

	ask.has_expect = a->o->has_expect;
	ask.expect = (struct slice){ a->o->expect, sizeof(a->o->expect) };
	return audit_ledger_ask(l, MSG_audit_verify, &ask, on_verdict, a);
}

/* One directory of the state directory's. */
static void
look_at(struct audit *a, int place_fd, const char *name)
{
	cleanup_fd int fd = -1;
	struct audit_ledger *l = NULL;
	int ret;

	fd = openat(place_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return;
	ret = fd < 0 ? -errno : audit_ledger_start(fd, &l);
	if (ret == -ENOENT)
		return;
	a->found++;
	a->name = name;
	if (ret < 0)
		text_say("audit: cannot read the record of %s: %s", name, strerror(-ret));
	else
		ret = a->o->verb == AUDIT_VERIFY ? verify(a, l) : show(a, l);
	if (ret < 0)
		a->status = EXIT_UNABLE;
	audit_ledger_end(l);
}

static int
no_dots(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int
look_in(struct audit *a, int state_fd, const char *place)
{
	cleanup_fd int fd = openat(state_fd, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **names = NULL;
	int i, n;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (a->o->run_id) {
		look_at(a, fd, a->o->run_id);
		return 0;
	}
	n = scandirat(fd, ".", &names, no_dots, alphasort);
	if (n < 0)
		return -errno;
	for (i = 0; i < n; i++) {
		if (!a->unread)
			look_at(a, fd, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return 0;
}

static int
unusable(const char *dir, int error)
{
	text_say("audit: cannot read the state directory %s: %s; --state DIR names another",
	    dir, strerror(error));
	return EXIT_UNABLE;
}

static void
look_everywhere(struct audit *a, int state_fd)
{
	size_t i;
	int ret;

	for (i = 0; i < countof(places) && !a->unread; i++) {
		ret = look_in(a, state_fd, places[i]);
		if (ret < 0)
			a->status = unusable(a->state_dir, -ret);
	}
	if (a->found == 0 && a->o->run_id) {
		text_say("audit: no record of %s in %s", a->o->run_id, a->state_dir);
		a->status = EXIT_UNABLE;
	} else if (a->found == 0 && a->status == 0 && !a->o->quiet) {
		text_say("audit: no records in %s", a->state_dir);
	}
}

int
audit_run(const struct audit_options *o)
{
	cleanup_free char *dir = o->state_dir ? strdup(o->state_dir) : state_dir_default();
	struct audit a = { .o = o, .state_dir = dir };
	cleanup_fd int fd = -1;

	if (!dir) {
		text_say(
		    "audit: --state DIR is needed: neither XDG_STATE_HOME nor HOME is set");
		return EXIT_UNABLE;
	}
	if (o->run_id &&
	    (strchr(o->run_id, '/') || o->run_id[0] == '.' || o->run_id[0] == '\0')) {
		text_say("audit: --run: not the name of a run");
		return EXIT_UNABLE;
	}
	if (o->has_expect && !o->run_id) {
		text_say("audit: --expect is the value of one record: name it with --run");
		return EXIT_UNABLE;
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return unusable(dir, errno);
	a.colour = !o->jsonl && isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	look_everywhere(&a, fd);
	if (o->verb == AUDIT_VERIFY && !o->has_expect && o->verbose)
		text_say("audit: whoever can write journal, index and head can cut all three: "
			 "keep a head elsewhere and compare it with --expect");
	return a.status;
}

/* ---- the command line --------------------------------------------------------------- */

static void
set_text(bool *ret_has, struct slice *ret, bool has, const char *text)
{
	*ret_has = has;
	if (has)
		*ret = slice_of(text);
}

static void
set_filter(const struct options *o, struct msg_audit_read *f)
{
	const char *slash;

	set_text(&f->has_trace, &f->trace, o->has_trace, o->trace);
	set_text(&f->has_operation, &f->operation, o->has_operation, o->operation);
	set_text(&f->has_call, &f->call, o->has_call, o->call);
	/* The record has the id of what session list and acquire print as RUNTIME/ID. */
	slash = o->has_session ? strrchr(o->session, '/') : NULL;
	set_text(&f->has_session, &f->session, o->has_session,
	    slash != NULL ? slash + 1 : o->session);
	set_text(&f->has_principal, &f->principal, o->has_principal, o->principal);
	set_text(&f->has_tool, &f->tool, o->has_tool, o->tool);
	set_text(&f->has_grant, &f->grant, o->has_grant, o->grant);
	f->has_outcome = o->has_outcome;
	f->outcome = (enum record_outcome)o->outcome;
	f->has_since = o->has_since;
	f->since = o->since_ms;
	f->has_until = o->has_until;
	f->until = o->until_ms;
}

/* In the order of enum audit_verb. */
static const char *const verbs[] = { "show", "verify", "query" };

static const char *
verb_name(size_t i)
{
	return i < countof(verbs) ? verbs[i] : NULL;
}

/* Which is asked for; countof(verbs), after a line, if that is none. */
static size_t
find_verb(const struct options *o)
{
	const char *word = o->nwords > 0 ? o->words[0] : NULL;
	char err[VERB_FAULT_MAX];
	size_t i;

	for (i = 0; i < countof(verbs); i++)
		if (word != NULL && strcmp(word, verbs[i]) == 0)
			break;
	if (i == countof(verbs)) {
		verb_fault("audit", verb_name, word, err);
		text_say("%s", err);
	} else if (o->nwords > 1) {
		text_say("audit %s: %.64s: one word too many", word, o->words[1]);
		return countof(verbs);
	}
	return i;
}

int
audit_main(const struct options *o, int argc, char **argv)
{
	struct audit_options a = { .state_dir = o->state, .run_id = o->run };
	const char *fault;
	size_t i;

	(void)argc;
	(void)argv;
	i = find_verb(o);
	if (i == countof(verbs))
		return EXIT_UNABLE;
	a.verb = (enum audit_verb)i;
	a.jsonl = o->output == OUTPUT_JSONL;
	a.quiet = o->quiet;
	a.verbose = o->verbose;
	a.has_expect = o->has_expect;
	if (o->has_expect && !hex_decode(o->expect, a.expect, sizeof(a.expect))) {
		text_say("audit: --expect: not 64 hexadecimal digits");
		return EXIT_UNABLE;
	}
	if (o->has_principal && (fault = options_address_fault(o->principal)) != NULL) {
		text_say("audit: --principal: \"%.80s\" %s, expected human:ID, agent:ID, "
			 "group:ID or service:ID",
		    o->principal, fault);
		return EXIT_UNABLE;
	}
	set_filter(o, &a.filter);
	return audit_run(&a);
}
