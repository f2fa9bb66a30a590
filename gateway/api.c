#include "gateway/api.h"

#include "gateway/caller.h"
#include "gateway/operations.h"

static void
on_text(struct conn *c, struct slice text)
{
	operations_on_text(conn_user(c), text);
}

static void
on_drained(struct conn *c)
{
	struct caller *x = conn_user(c);

	if (x != NULL)
		operations_on_drained(x);
}

static void
on_leave(struct conn *c)
{
	operations_on_leave(conn_user(c));
}

/* What the client has sent is the broker's: its operation goes on (D-4, OP-26). */
static void
on_close(struct conn *c, unsigned code)
{
	struct caller *x = conn_user(c);

	(void)code;
	conn_set_user(c, NULL);
	caller_destroy(x);
}

const struct conn_handler api_handler = {
	.body_bytes = 8 * METADATA_MAX, /* that much may be said in so much JSON */
	.on_request = caller_on_request,
	.on_text = on_text,
	.on_drained = on_drained,
	.on_leave = on_leave,
	.on_close = on_close,
};
