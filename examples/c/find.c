/*
 * find: looks for a word in the files of a directory, as a driver of the standard loop.
 *
 *	make
 *	cc -I. -o examples/c/find examples/c/find.c build/lib/libcaisson-runtime.a
 *	caisson run --app examples/c --allow list:docs --allow read:docs --max-steps 100 \
 *	    -m '{"path": "docs", "word": "drain"}' -- /app/find
 *
 * What it may not read it asks a person for, where it may ask; that ends the turn.
 */
#define _GNU_SOURCE /* memmem */
#include "worker/sdk/caisson.h"
#include "worker/sdk/caisson_loop.h"

#include <stdio.h>

struct finder {
	struct caisson_value path, word; /* of the turn's message */
	const char *tool;		 /* of the call that was made last ... */
	char file[4096];		 /* ... and its path */
	struct caisson_writer listing;	 /* what files.list gave */
	struct caisson_cursor entries;	 /* those that are still to be read */
};

static int
on_open(void *data, struct caisson *c, const struct caisson_turn *turn)
{
	struct finder *f = data;

	(void)c;
	f->path = caisson_get(turn->message, "path");
	f->word = caisson_get(turn->message, "word");
	f->entries = (struct caisson_cursor){ { NULL, 0 }, 0 };
	caisson_writer_finish(&f->listing);
	return 0;
}

/* {"path": <the file>} */
static void
put_arguments(const struct finder *f, struct caisson_writer *w)
{
	caisson_put_map(w, 1);
	caisson_put_str(w, "path");
	caisson_put_str(w, f->file);
}

/* Calls `tool` for a file of the directory, or for the directory. */
static int
decide_call(struct finder *f, const char *tool, struct caisson_value name,
    struct caisson_writer *ret_decision)
{
	struct caisson_writer arguments = { NULL, 0, 0, 0 };
	size_t n, m;
	const char *path = caisson_bytes(f->path, &n), *file = caisson_bytes(name, &m);
	int len = snprintf(f->file, sizeof f->file, "%.*s%s%.*s", (int)n, n > 0 ? path : "",
	    m > 0 ? "/" : "", (int)m, m > 0 ? file : "");
	int error;

	if (len >= (int)sizeof f->file)
		return caisson_decide_fail(ret_decision, "too_long", "this path is too long");
	f->tool = tool;
	put_arguments(f, &arguments);
	error = caisson_decide_call(ret_decision, tool, &arguments, NULL);
	caisson_writer_finish(&arguments);
	return error;
}

/* Asks a person for the call that was denied. */
static int
decide_ask(const struct finder *f, struct caisson_writer *ret_decision)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	int error;

	caisson_put_map(&w, 2);
	caisson_put_str(&w, "reason");
	caisson_put_str(&w, "it may hold the word");
	caisson_put_str(&w, "request");
	caisson_put_map(&w, 2);
	caisson_put_str(&w, "tool");
	caisson_put_str(&w, f->tool);
	caisson_put_str(&w, "arguments");
	put_arguments(f, &w);
	error = caisson_decide_call(ret_decision, CAISSON_ASK_TOOL, &w, NULL);
	caisson_writer_finish(&w);
	return error;
}

/* {"found": <the file, or nil>} */
static int
decide_found(const char *file, struct caisson_writer *ret_decision)
{
	struct caisson_writer w = { NULL, 0, 0, 0 };
	int error;

	caisson_put_map(&w, 1);
	caisson_put_str(&w, "found");
	if (file != NULL)
		caisson_put_str(&w, file);
	else
		caisson_put_nil(&w);
	error = caisson_decide_complete(ret_decision, &w);
	caisson_writer_finish(&w);
	return error;
}

static int
decide_failed(
    const struct finder *f, struct caisson_value code, struct caisson_writer *ret_decision)
{
	char name[65];
	size_t n;
	const char *p = caisson_bytes(code, &n);

	(void)snprintf(name, sizeof name, "%.*s", (int)n, n > 0 ? p : "");
	return caisson_decide_fail(ret_decision, name, f->file);
}

static bool
has_word(const struct finder *f, struct caisson_value text)
{
	size_t n, m;
	const char *p = caisson_bytes(text, &n), *word = caisson_bytes(f->word, &m);

	return p != NULL && word != NULL && memmem(p, n, word, m) != NULL;
}

static int
on_decide(void *data, struct caisson *c, struct caisson_value given,
    struct caisson_writer *ret_decision)
{
	struct finder *f = data;
	struct caisson_value result = caisson_get(given, "result"), entry;
	struct caisson_value status = caisson_get(result, "status");
	struct caisson_value output = caisson_get(result, "output");

	(void)c;
	if (caisson_is(caisson_get(given, "type"), "start"))
		return decide_call(
		    f, "files.list", (struct caisson_value){ NULL, 0 }, ret_decision);
	if (caisson_is(status, "denied") &&
	    !caisson_is(caisson_get(result, "tool"), CAISSON_ASK_TOOL))
		return decide_ask(f, ret_decision);
	if (!caisson_is(status, "succeeded"))
		return decide_failed(
		    f, caisson_get(caisson_get(result, "error"), "code"), ret_decision);
	if (caisson_is(caisson_get(result, "tool"), "files.list")) {
		/* What is given is borrowed until the decision is made. */
		caisson_put_value(&f->listing, caisson_get(output, "entries"));
		if (f->listing.error < 0)
			return f->listing.error;
		f->entries =
		    caisson_iterate((struct caisson_value){ f->listing.p, f->listing.n });
	} else if (has_word(f, caisson_get(output, "text")))
		return decide_found(f->file, ret_decision);
	while (caisson_next(&f->entries, &entry))
		if (caisson_is(caisson_get(entry, "type"), "file"))
			return decide_call(
			    f, "files.read", caisson_get(entry, "name"), ret_decision);
	return decide_found(NULL, ret_decision);
}

int
main(void)
{
	struct finder f = { .tool = "" };
	int error = caisson_loop_serve(
	    &(struct caisson_driver){ .open = on_open, .decide = on_decide, .data = &f });

	caisson_writer_finish(&f.listing);
	if (error < 0)
		fprintf(stderr, "find: no link: %s\n", strerror(-error));
	return error < 0;
}
