#include "client/logs.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/answer.h"
#include "client/remote.h"
#include "client/render.h"
#include "client/text.h"
#include "common/util.h"
#include "common/walk.h"

#define LOOK_MS 1000 /* with --follow: between two looks for another operation */

struct logs {
	const struct options *o;
	struct caisson_sandbox *sandbox;
	struct caisson_session *session;
	struct buf page; /* packed: operations */
	char cursor[ANSWER_CURSOR_MAX];
	char last[65]; /* the operation that was shown last */
	uint32_t seen; /* rows of the page at `cursor` that were looked at */
};

/* Blocks: nothing else is waited for, and a signal ends us as it ends any program. */
static bool
write_all(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		p += done;
		n -= (size_t)done;
	}
	return true;
}

static bool
show(struct logs *l, const struct caisson_event *e)
{
	int fd = e->to_stderr && l->o->output != OUTPUT_JSONL ? STDERR_FILENO : STDOUT_FILENO;
	struct text_filter filter = { .n = 0 };
	struct buf b = { 0 };
	bool ok;

	if (l->o->output == OUTPUT_JSONL) {
		text_addf(&b, "{\"operationID\":\"%s\",\"event\":", l->last);
		buf_add(&b, e->json, strlen(e->json));
		buf_add(&b, "}\n", 2);
	} else if (e->type == CAISSON_GAP) {
		text_say("logs: %s: events %llu to %llu are not retained any more", l->last,
		    (unsigned long long)e->from, (unsigned long long)e->to);
	} else if (e->type == CAISSON_OUTPUT && isatty(fd)) {
		text_escape(&filter, e->data, e->data_bytes, &b);
		text_escape_end(&filter, &b);
	} else if (e->type == CAISSON_OUTPUT) {
		buf_add(&b, e->data, e->data_bytes);
	}
	ok = !b.failed && write_all(fd, b.p, b.n);
	buf_finish(&b);
	return ok;
}

/* One operation to its end.  0, or the exit status. */
static int
show_operation(struct logs *l, const char *id)
{
	struct caisson_error error;
	struct caisson_event e;
	int r;

	snprintf(l->last, sizeof l->last, "%s", id);
	if (l->o->verbose)
		text_say("logs: %s", id);
	if (caisson_resume(l->session, id, 0, &error) < 0)
		return remote_explain("logs", &error);
	do {
		r = caisson_receive(l->session, &e, -1, &error);
		/* One that is over and forgotten has nothing to show. */
		if (r < 0 && (strcmp(error.code, "not_found") == 0 ||
				 strcmp(error.code, "replay_expired") == 0))
			return 0;
		if (r < 0)
			return remote_explain("logs", &error);
		if (!show(l, &e))
			return EXIT_CANNOT;
	} while (!e.terminal);
	return 0;
}

/* The rows of the page that were not looked at; without --follow none that is not over yet. */
static int
show_page(struct logs *l, const char *text)
{
	struct value list, id, ended;
	struct slice rest;
	char name[65];
	uint32_t i, n;
	int r = 0;

	l->page.n = 0;
	if (answer_rows(text, &answer_operations, &l->page, &list, l->cursor) < 0) {
		text_say("logs: the answer makes no sense");
		return EXIT_CANNOT;
	}
	rest = list.raw;
	n = value_next(&rest).count;
	for (i = 0; i < n && r == 0; i++) {
		struct value row = value_skip(&rest);

		if (i < l->seen || row.type != VALUE_MAP ||
		    !value_get(row.raw, "operationID", &id) || id.type != VALUE_STR ||
		    id.bytes.n >= sizeof name)
			continue;
		l->seen = i + 1;
		if (!l->o->follow && !value_get(row.raw, "endedAt", &ended))
			continue;
		snprintf(name, sizeof name, "%.*s", (int)id.bytes.n, (const char *)id.bytes.p);
		r = show_operation(l, name);
	}
	if (l->cursor[0] != '\0')
		l->seen = 0; /* the next page begins */
	return r;
}

static int
show_all(struct logs *l)
{
	struct caisson_error error;
	int r;

	do {
		char before[ANSWER_CURSOR_MAX];
		cleanup_free char *page = caisson_operations(l->sandbox, 100, l->cursor, &error);

		/* A session that is gone has no more to come. */
		if (page == NULL && l->last[0] != '\0' && strcmp(error.code, "not_found") == 0)
			return 0;
		if (page == NULL)
			return remote_explain("logs", &error);
		memcpy(before, l->cursor, sizeof before);
		r = show_page(l, page);
		if (r == 0 && l->cursor[0] == '\0' && l->o->follow) {
			/* The same page again: it may have grown. */
			memcpy(l->cursor, before, sizeof before);
			poll(NULL, 0, LOOK_MS);
		} else if (l->cursor[0] == '\0') {
			return r;
		}
	} while (r == 0);
	return r;
}

int
logs_main(const struct options *o, int argc, char **argv)
{
	struct caisson_client *client = NULL;
	struct logs l = { .o = o };
	struct caisson_error error;
	int r = EXIT_CANNOT;

	(void)argc;
	(void)argv;
	if (o->nwords != 1) {
		text_say("logs: needs one SESSION");
		return EXIT_CANNOT;
	}
	client = remote_client(o, "logs");
	if (client != NULL)
		l.sandbox = remote_sandbox(client, "logs", o->words[0]);
	if (l.sandbox != NULL) {
		l.session = caisson_session_open(l.sandbox, &error);
		if (l.session == NULL)
			r = remote_explain("logs", &error);
		else if (remote_confine("logs") == 0)
			r = show_all(&l);
	}
	buf_finish(&l.page);
	caisson_session_close(l.session);
	caisson_sandbox_destroy(l.sandbox);
	caisson_client_destroy(client);
	return r;
}
