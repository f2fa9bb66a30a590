#include "broker/state.h"

#include <errno.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/grants.h"
#include "broker/standing.h"
#include "common/log.h"
#include "common/walk.h"

/* What the record says of grants, in the ledger's pages, and into the namespace's set. */

int
state_each_map(struct broker *b, struct slice list, int (*fn)(struct broker *, struct slice))
{
	struct value array = value_next(&list), map;
	int r = 0;

	for (uint32_t i = 0; i < array.count && r == 0; i++) {
		map = value_skip(&list);
		r = map.type == VALUE_MAP ? fn(b, map.raw) : -EINVAL;
	}
	return r;
}

/* The text and the number of a map that has these two. */
static int
pair_read(struct slice map, const char *text, const char *number, struct slice *ret_text,
    uint64_t *ret_number)
{
	struct value t, n;

	if (!value_get(map, text, &t) || !value_get(map, number, &n) || t.type != VALUE_STR ||
	    n.type != VALUE_UINT)
		return -EINVAL;
	*ret_text = t.bytes;
	*ret_number = n.uint;
	return 0;
}

static int
use_read(struct broker *b, struct slice map)
{
	struct slice id;
	uint64_t spent;
	int r = pair_read(map, "grant", "spent", &id, &spent);

	if (r < 0)
		return r;
	if (spent > UINT32_MAX)
		spent = UINT32_MAX;
	return grants_take_spent(b->grants, id, (uint32_t)spent)
		   ? 0
		   : standing_spent(b->standing, id, (uint32_t)spent);
}

static int
revocation_read(struct broker *b, struct slice map)
{
	struct slice id;
	uint64_t at;
	int r = pair_read(map, "grant", "at", &id, &at);

	return r < 0 ? r : grants_take_revoked(b->grants, id, at);
}

static int
grant_read(struct broker *b, struct slice map)
{
	struct msg_record m = { 0 };
	struct fault fault;
	char why[256];
	int r = protocol_unpack(map.p, map.n, MSG_record, &m, &fault);

	if (r < 0)
		return r;
	r = grants_take_issued(b->grants, &m, why, sizeof why);
	if (r == -EINVAL)
		log_error("grant %.*s of the record is not believed: %s", (int)m.grant.n,
		    (const char *)m.grant.p, why);
	return r;
}

int
state_grants_read(struct broker *b, const struct msg_state_load_reply *page)
{
	int r = state_each_map(b, page->grants, grant_read);

	if (r == 0)
		r = state_each_map(b, page->revocations, revocation_read);
	return r == 0 ? state_each_map(b, page->uses, use_read) : r;
}

bool
state_grants_attach(struct broker *b)
{
	char id[257] = "";
	int r = grants_attach(b->grants, b->grant_set, id, sizeof id);

	if (r == -EEXIST)
		log_error("grant %s stands in the configuration and in the record, where it "
			  "was issued: give the configuration's another id",
		    id);
	else if (r < 0)
		log_error("the grants of the record cannot be loaded, from %s on: %s", id,
		    strerror(-r));
	if (r < 0)
		b->on_settled(b);
	return r == 0;
}
