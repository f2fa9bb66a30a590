#include "gateway/monitor.h"

static void
monitor_on_request(struct conn *c, const struct request *r)
{
	struct response ok = { .status = 200, .type = "text/plain", .body = slice_of("ok\n") };

	if (r->nsegments != 1 || !slice_is(r->segments[0], "healthz")) {
		conn_refuse(c, 404, "not_found", slice_of("there is nothing at this path"));
		return;
	}
	if (r->method != HTTP_GET && r->method != HTTP_HEAD) {
		conn_refuse_method(c, "GET, HEAD");
		return;
	}
	conn_respond(c, &ok);
}

const struct conn_handler monitor_handler = { .on_request = monitor_on_request };
