#include "gateway/api.h"

static void
api_on_request(struct conn *c, const struct request *r)
{
	(void)r;
	conn_refuse(c, 404, "not_found", slice_of("there is nothing at this path"));
}

const struct conn_handler api_handler = { .on_request = api_on_request };
