/*
 * agent: adds up the sizes of every file in a directory, all reads in flight at once.
 *
 *	make
 *	cc -I. -o examples/c/agent examples/c/agent.c build/lib/libcaisson-runtime.a
 *	caisson run --app examples/c --allow list:docs --allow read:docs \
 *	    -m '{"path": "docs"}' -- /app/agent
 */
#include "worker/sdk/caisson.h"

#include <stdio.h>

/* {"path": "<directory>/<name>"}, or without a name the directory alone. */
static void
put_path(struct caisson_writer *w, struct caisson_value directory, struct caisson_value name)
{
	char path[4096];
	size_t n, m;
	const char *d = caisson_bytes(directory, &n), *f = caisson_bytes(name, &m);
	int len = snprintf(path, sizeof path, "%.*s%s%.*s", (int)n, n > 0 ? d : "",
	    m > 0 ? "/" : "", (int)m, m > 0 ? f : "");

	caisson_put_map(w, 1);
	caisson_put_str(w, "path");
	caisson_put_str_n(w, path, len < (int)sizeof path ? (size_t)len : sizeof path - 1);
}

/* Starts a files.stat for every file of the listing; returns how many, or a negative errno. */
static int
start_all(struct caisson *c, struct caisson_value directory, struct caisson_value listing)
{
	struct caisson_cursor it = caisson_iterate(caisson_get(listing, "entries"));
	struct caisson_value entry;
	int started = 0, error;

	while (caisson_next(&it, &entry)) {
		struct caisson_writer w = { NULL, 0, 0, 0 };
		uint32_t call;

		if (!caisson_is(caisson_get(entry, "type"), "file"))
			continue;
		put_path(&w, directory, caisson_get(entry, "name"));
		error = caisson_call_start(c, "files.stat", &w, &call);
		caisson_writer_finish(&w);
		if (error < 0)
			return error;
		started++;
	}
	return started;
}

/* One turn up to its outcome. */
static int
run(struct caisson *c, const struct caisson_turn *turn)
{
	struct caisson_value directory = caisson_get(turn->message, "path");
	struct caisson_writer w = { NULL, 0, 0, 0 };
	struct caisson_result r;
	uint64_t bytes = 0, files = 0, denied = 0;
	int left, error;

	put_path(&w, directory, (struct caisson_value){ NULL, 0 });
	error = caisson_invoke(c, "files.list", &w, &r);
	caisson_writer_finish(&w);
	if (error < 0)
		return error;
	if (r.status != CAISSON_SUCCEEDED) {
		caisson_result_finish(&r);
		return caisson_fail(c, "no_listing", "the directory cannot be listed");
	}
	left = start_all(c, directory, r.output);
	caisson_result_finish(&r);
	for (; left > 0; left--) {
		error = caisson_call_wait(c, 0, &r);
		if (error < 0)
			return error;
		files += r.status == CAISSON_SUCCEEDED;
		denied += r.status == CAISSON_DENIED;
		bytes += caisson_uint(caisson_get(r.output, "size"));
		caisson_result_finish(&r);
	}
	if (left < 0)
		return left;
	caisson_put_map(&w, 3);
	caisson_put_str(&w, "files");
	caisson_put_uint(&w, files);
	caisson_put_str(&w, "denied");
	caisson_put_uint(&w, denied);
	caisson_put_str(&w, "bytes");
	caisson_put_uint(&w, bytes);
	error = caisson_complete(c, &w);
	caisson_writer_finish(&w);
	return error;
}

int
main(void)
{
	struct caisson *c;
	struct caisson_turn turn;
	int error = caisson_open(&c);

	if (error < 0) {
		fprintf(stderr, "agent: no link: %s\n", strerror(-error));
		return 1;
	}
	while ((error = caisson_next_turn(c, &turn)) == 0 && (error = run(c, &turn)) == 0)
		continue;
	caisson_close(c);
	return error == -EPIPE ? 0 : 1; /* the broker closed the link: the normal end */
}
