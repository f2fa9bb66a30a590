#include "client/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/answer.h"
#include "client/remote.h"
#include "client/render.h"
#include "client/text.h"
#include "client/verb.h"
#include "common/util.h"

/*
 * Each word asks one thing of the daemon.  Everything is connected before the first byte is
 * read, and from then on nothing can be opened.
 */

struct session_command {
	const struct options *o;
	struct caisson_client *client;
	struct caisson_sandbox *sandbox; /* that the second word names; NULL: it names none */
	struct buf out;
};

/* 0, or the exit status after a line that says that the answer is none. */
static int
check(int r)
{
	if (r == 0)
		return 0;
	text_say("session: %s", r == -ENOMEM ? "out of memory" : "the answer makes no sense");
	return EXIT_CANNOT;
}

/* What is known of the session. */
static int
show(struct session_command *s)
{
	struct caisson_error error;
	cleanup_free char *text = caisson_show(s->sandbox, &error);

	if (text == NULL)
		return remote_explain("session", &error);
	return check(answer_print(text, s->o->output == OUTPUT_JSONL, &s->out));
}

static int
acquire(struct session_command *s)
{
	const struct options *o = s->o;
	struct caisson_acquire a = { .runtime = o->words[1],
		.idempotency_key = o->idempotency_key,
		.lease_ms = (uint32_t)o->lease_ms,
		.timeout_ms = (uint32_t)o->timeout_ms,
		.queue = (uint32_t)o->queue };
	struct caisson_error error;

	s->sandbox = caisson_acquire(s->client, &a, &error);
	if (s->sandbox == NULL)
		return remote_explain("session", &error);
	if (o->output == OUTPUT_JSONL)
		return show(s);
	text_addf(&s->out, "%.256s/%s\n", o->words[1], caisson_sandbox_id(s->sandbox));
	return 0;
}

static int
release(struct session_command *s)
{
	struct caisson_error error;

	if (caisson_release(s->sandbox, s->o->immediate ? CAISSON_IMMEDIATE : CAISSON_DRAIN,
		s->o->wait, &error) < 0)
		return remote_explain("session", &error);
	return s->o->output == OUTPUT_JSONL ? show(s) : 0;
}

/* ---- pages ------------------------------------------------------------------------------- */

typedef char *page_fn(
    struct session_command *s, const char *cursor, struct caisson_error *error);

static char *
page_of_sessions(struct session_command *s, const char *cursor, struct caisson_error *error)
{
	return caisson_list(
	    s->client, s->o->nwords > 1 ? s->o->words[1] : NULL, 1000, cursor, error);
}

static char *
page_of_operations(struct session_command *s, const char *cursor, struct caisson_error *error)
{
	return caisson_operations(s->sandbox, 1000, cursor, error);
}

static char *
page_of_files(struct session_command *s, const char *cursor, struct caisson_error *error)
{
	return caisson_files(
	    s->sandbox, s->o->nwords > 2 ? s->o->words[2] : NULL, 1000, cursor, error);
}

/* All pages: lines as they come, or one table. */
static int
show_pages(struct session_command *s, page_fn *fn, const struct answer_shape *shape)
{
	char cursor[ANSWER_CURSOR_MAX] = "";
	struct answer_table table;
	struct caisson_error error;
	int r;

	answer_table_init(&table, shape);
	do {
		cleanup_free char *page = fn(s, cursor, &error);

		if (page == NULL)
			r = remote_explain("session", &error);
		else if (s->o->output == OUTPUT_JSONL)
			r = check(answer_print_rows(page, shape, &s->out, cursor));
		else
			r = check(answer_table_add(&table, page, cursor));
	} while (r == 0 && cursor[0] != '\0');
	if (r == 0)
		answer_table_render(&table, &s->out);
	answer_table_finish(&table);
	return r;
}

static int
list(struct session_command *s)
{
	return show_pages(s, page_of_sessions, &answer_sessions);
}

static int
operations(struct session_command *s)
{
	return show_pages(s, page_of_operations, &answer_operations);
}

static int
files(struct session_command *s)
{
	return show_pages(s, page_of_files, &answer_files);
}

/* ---- a file ------------------------------------------------------------------------------ */

#define CHUNK_BYTES (512u << 10)

static int
get(struct session_command *s)
{
	cleanup_free uint8_t *chunk = malloc(CHUNK_BYTES);
	struct caisson_error error;
	uint64_t offset = 0;
	long n;

	if (chunk == NULL)
		return check(-ENOMEM);
	do {
		n = caisson_file_read(
		    s->sandbox, s->o->words[2], offset, chunk, CHUNK_BYTES, &error);
		if (n < 0)
			return remote_explain("session", &error);
		if (n > 0 && fwrite(chunk, 1, (size_t)n, stdout) != (size_t)n)
			break;
		offset += (uint64_t)n;
	} while (n == CHUNK_BYTES);
	if (fflush(stdout) == 0)
		return 0;
	text_say("session: cannot write standard output: %s", strerror(errno));
	return EXIT_CANNOT;
}

/* ---- which one --------------------------------------------------------------------------- */

static const struct {
	const char *word, *wants;
	size_t min, max; /* words, itself among them */
	bool about; /* the second one is a session */
	int (*main)(struct session_command *s);
} words[] = {
	{ "acquire", "RUNTIME", 2, 2, false, acquire },
	{ "list", "no more than RUNTIME", 1, 2, false, list },
	{ "show", "SESSION", 2, 2, true, show },
	{ "release", "SESSION", 2, 2, true, release },
	{ "operations", "SESSION", 2, 2, true, operations },
	{ "files", "SESSION [PATH]", 2, 3, true, files },
	{ "get", "SESSION PATH", 3, 3, true, get },
};

static int
perform(struct session_command *s, size_t which)
{
	struct caisson_error error;
	int r;

	if (words[which].about) {
		s->sandbox = remote_sandbox(s->client, "session", s->o->words[1]);
		if (s->sandbox == NULL)
			return EXIT_CANNOT;
	}
	if (caisson_client_connect(s->client, &error) < 0)
		return remote_explain("session", &error);
	r = remote_confine("session");
	return r != 0 ? r : words[which].main(s);
}

static const char *
word_name(size_t i)
{
	return i < countof(words) ? words[i].word : NULL;
}

int
session_main(const struct options *o, int argc, char **argv)
{
	struct session_command s = { .o = o };
	const char *word = o->nwords > 0 ? o->words[0] : NULL;
	char err[VERB_FAULT_MAX];
	size_t i;
	int r;

	(void)argc;
	(void)argv;
	for (i = 0; i < countof(words); i++)
		if (word != NULL && strcmp(words[i].word, word) == 0)
			break;
	if (i == countof(words)) {
		verb_fault("session", word_name, word, err);
		text_say("%s", err);
		return EXIT_CANNOT;
	}
	if (o->nwords < words[i].min || o->nwords > words[i].max) {
		text_say("session %s: needs %s", word, words[i].wants);
		return EXIT_CANNOT;
	}
	s.client = remote_client(o, "session");
	if (s.client == NULL)
		return EXIT_CANNOT;
	if (i == 1 && o->nwords < 2 && s.client->target.kind != TARGET_LOCAL) {
		text_say("session list: needs RUNTIME, where a gateway is asked");
		caisson_client_destroy(s.client);
		return EXIT_CANNOT;
	}
	r = perform(&s, i);
	if (r == 0 && s.out.n > 0 && fwrite(s.out.p, 1, s.out.n, stdout) != s.out.n)
		r = EXIT_CANNOT;
	if (r == 0 && fflush(stdout) != 0)
		r = EXIT_CANNOT;
	buf_finish(&s.out);
	caisson_sandbox_destroy(s.sandbox);
	caisson_client_destroy(s.client);
	return r;
}
