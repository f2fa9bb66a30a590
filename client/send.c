#include "client/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/follow.h"
#include "client/input.h"
#include "client/render.h"
#include "client/text.h"
#include "common/util.h"

/* ---- what is sent ------------------------------------------------------------------------ */

struct sending {
	struct caisson_operation operation;
	char *message; /* JSON */
	struct buf content;
	char **env; /* NULL-terminated, each its own */
};

/* All of standard input.  0, or the exit status after a line. */
static int
read_input(struct buf *ret)
{
	ssize_t n;

	do {
		uint8_t *room = buf_reserve(ret, OUTPUT_CHUNK_MAX);

		n = room != NULL ? read(STDIN_FILENO, room, OUTPUT_CHUNK_MAX) : -1;
		if (n > 0)
			ret->n += (size_t)n;
		if (ret->n > RESULT_MAX) {
			text_say("send: standard input is over %u bytes: send it in parts, with --append",
			    RESULT_MAX);
			return EXIT_CANNOT;
		}
	} while (n > 0 || (n < 0 && !ret->failed && errno == EINTR));
	if (n == 0)
		return 0;
	text_say("send: cannot read standard input: %s", ret->failed ? "out of memory" : strerror(errno));
	return EXIT_CANNOT;
}

static int
set_env(struct sending *s, const struct option_pairs *pairs)
{
	s->env = calloc(pairs->n + 1, sizeof *s->env);
	for (size_t i = 0, n = 0; s->env != NULL && i < pairs->n; i++) {
		const char *name = pairs->item[i].left;
		const char *value =
		    pairs->item[i].right != NULL ? pairs->item[i].right : getenv(name);

		if (value != NULL && asprintf(&s->env[n++], "%s=%s", name, value) < 0) {
			s->env[--n] = NULL;
			break;
		}
	}
	s->operation.env = (const char *const *)s->env;
	return s->env != NULL ? 0 : -ENOMEM;
}

/* The JSON text of --message, @FILE read. */
static int
set_message(struct sending *s, const char *word)
{
	char err[JSON_ERROR_MAX];

	s->message = word[0] == '@' ? input_read(word + 1, err) : strdup(word);
	s->operation.message = s->message;
	if (s->message != NULL)
		return 0;
	text_say("send: --message: %s", word[0] == '@' ? err : "out of memory");
	return EXIT_CANNOT;
}

static const struct {
	size_t has, path;
	enum caisson_kind kind;
} files[] = {
	{ offsetof(struct options, has_write), offsetof(struct options, write),
	    CAISSON_WRITE_FILE },
	{ offsetof(struct options, has_mkdir), offsetof(struct options, mkdir),
	    CAISSON_CREATE_DIRECTORY },
	{ offsetof(struct options, has_remove), offsetof(struct options, remove),
	    CAISSON_DELETE_FILE },
	{ offsetof(struct options, has_rename), offsetof(struct options, rename),
	    CAISSON_RENAME_FILE },
};

/* What kind it is: exactly one (OP-10).  How many the line names. */
static unsigned
set_kind(struct caisson_operation *op, const struct options *o)
{
	unsigned n = (o->command != NULL) + o->has_shell + o->has_message;

	op->kind = o->has_message ? CAISSON_TURN : CAISSON_COMMAND;
	for (size_t i = 0; i < countof(files); i++) {
		if (!*(const bool *)((const char *)o + files[i].has))
			continue;
		op->kind = files[i].kind;
		op->path = *(const char *const *)((const char *)o + files[i].path);
		n++;
	}
	return n;
}

/* 0, or the exit status after a line. */
static int
fill(struct sending *s, const struct options *o)
{
	struct caisson_operation *op = &s->operation;
	bool input = o->has_stdin || o->has_write;

	if (set_kind(op, o) != 1) {
		text_say("send: needs one of --message, --shell, --write, --mkdir, --delete, --rename "
			 "and -- COMMAND");
		return EXIT_CANNOT;
	}
	op->idempotency_key = o->idempotency_key;
	op->timeout_ms = (uint32_t)o->timeout_ms;
	op->max_steps = (uint32_t)o->max_steps;
	op->max_tool_calls = (uint32_t)o->max_tool_calls;
	op->purpose = o->run_purpose;
	op->argv = (const char *const *)o->command;
	op->shell = o->shell;
	op->directory = o->directory;
	op->to = o->to;
	op->append = o->append;
	op->recursive = o->recursive;
	if (o->has_env && set_env(s, &o->env) < 0) {
		text_say("send: out of memory");
		return EXIT_CANNOT;
	}
	if (o->has_message && set_message(s, o->message) != 0)
		return EXIT_CANNOT;
	if (input && read_input(&s->content) != 0)
		return EXIT_CANNOT;
	if (input) {
		op->content = s->content.p != NULL ? s->content.p : (const uint8_t *)"";
		op->content_bytes = s->content.n;
	}
	return 0;
}

static void
sending_finish(struct sending *s)
{
	for (size_t i = 0; s->env != NULL && s->env[i] != NULL; i++)
		free(s->env[i]);
	free(s->env);
	free(s->message);
	buf_finish(&s->content);
}

/* ---- on a session ------------------------------------------------------------------------ */

/* A session that the first word names, opened. */
struct opened {
	struct caisson_client *client;
	struct caisson_sandbox *sandbox;
	struct caisson_session *session;
};

static int
open_session(struct opened *ret, const struct options *o, const char *command)
{
	struct caisson_error error;

	*ret = (struct opened){ .client = remote_client(o, command) };
	if (ret->client != NULL)
		ret->sandbox = remote_sandbox(ret->client, command, o->words[0]);
	if (ret->sandbox == NULL)
		return EXIT_CANNOT;
	ret->session = caisson_session_open(ret->sandbox, &error);
	return ret->session != NULL ? 0 : remote_explain(command, &error);
}

static void
close_session(struct opened *s)
{
	caisson_session_close(s->session);
	caisson_sandbox_destroy(s->sandbox);
	caisson_client_destroy(s->client);
}

int
send_main(const struct options *o, int argc, char **argv)
{
	struct sending sending = { .message = NULL };
	struct caisson_error error;
	struct opened s = { NULL };
	int r;

	(void)argc;
	(void)argv;
	if (o->nwords != 1) {
		text_say("send: needs one SESSION, and what is asked of it");
		return EXIT_CANNOT;
	}
	r = fill(&sending, o);
	if (r == 0)
		r = open_session(&s, o, "send");
	if (r == 0 && caisson_send_start(s.session, &sending.operation, &error) < 0)
		r = remote_explain("send", &error);
	if (r == 0)
		r = follow_operation(&(struct follow){
		    .command = "send", .options = o, .session = s.session, .detach = o->detach });
	close_session(&s);
	sending_finish(&sending);
	return r;
}

/* What was written before is not shown again, and what has ended is left alone. */
static int
last_event(const struct opened *s, const char *operation, uint64_t *ret)
{
	struct caisson_error error;
	cleanup_free char *text = caisson_operation_show(s->sandbox, operation, &error);

	if (text == NULL)
		return remote_explain("cancel", &error);
	if (answer_number(text, "endedAt") != 0) {
		text_say("cancel: %.80s has ended already; caisson receive shows how", operation);
		return EXIT_CANNOT;
	}
	*ret = answer_number(text, "sequence");
	return 0;
}

/* Two words, the session and an operation; its events behind `after`. */
static int
resume(const struct options *o, const char *command, uint64_t after, bool cancel)
{
	struct caisson_error error;
	struct opened s = { NULL };
	int r;

	if (o->nwords != 2) {
		text_say("%s: needs SESSION and OPERATION", command);
		return EXIT_CANNOT;
	}
	r = open_session(&s, o, command);
	if (r == 0 && cancel)
		r = last_event(&s, o->words[1], &after);
	if (r == 0 && caisson_resume(s.session, o->words[1], after, &error) < 0)
		r = remote_explain(command, &error);
	if (r == 0)
		r = follow_operation(&(struct follow){
		    .command = command, .options = o, .session = s.session, .cancel = cancel });
	close_session(&s);
	return r;
}

int
receive_main(const struct options *o, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return resume(o, "receive", o->has_first ? o->first - 1 : 0, false);
}

int
cancel_main(const struct options *o, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return resume(o, "cancel", 0, true);
}
