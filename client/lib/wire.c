#include "client/lib/wire.h"

#include <stdlib.h>

#include "client/lib/internal.h"
#include "common/clock.h"

struct wire *
wire_open(const struct caisson_client *c, const char *runtime, const char *session,
    struct caisson_error *error)
{
	struct wire *w = calloc(1, sizeof *w);

	if (w == NULL) {
		error_set(error, "usage", "out of memory");
		return NULL;
	}
	w->ops = c->target.kind == TARGET_LOCAL ? &local_ops : &web_ops;
	w->client = c;
	w->at_ms = clock_ms() + c->timeout_ms;
	w->ch = channel_open(&c->target, c->tls, w->at_ms, error);
	if (w->ch == NULL || w->ops->greet(w, runtime, session, error) < 0) {
		wire_close(w);
		return NULL;
	}
	return w;
}

void
wire_close(struct wire *w)
{
	if (w == NULL)
		return;
	channel_close(w->ch);
	pending_finish(&w->pending);
	buf_finish(&w->message);
	buf_finish(&w->value);
	buf_finish(&w->data);
	free(w);
}

int
wire_more(struct wire *w, struct caisson_error *error)
{
	size_t before = channel_input(w->ch).n;
	int r;

	for (;;) {
		if (channel_step(w->ch, error) < 0)
			return -1;
		if (channel_input(w->ch).n > before)
			return 0;
		if (w->ch->ended)
			return error_set(error, "transport", "the connection was closed");
		r = channel_wait(w->ch, w->at_ms, error);
		if (r < 0)
			return -1;
		if (r == 0)
			return error_set(error, "transport", "no answer in time");
	}
}
