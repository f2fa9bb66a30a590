#include "broker/state.h"

#include <errno.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/escalations.h"
#include "broker/replay.h"
#include "common/log.h"
#include "common/walk.h"

/* What the record says of asks that wait, and of keys of calls, in the ledger's pages. */

static bool
get(struct slice map, const char *key, enum value_type type, struct value *ret)
{
	return value_get(map, key, ret) && ret->type == type;
}

static int
escalation_read(struct broker *b, struct slice map)
{
	struct msg_record m = { 0 };
	struct value record, resolved;
	struct escalation *e;
	char id[ESCALATION_ID] = "";
	struct fault fault;
	int r;

	if (!get(map, "record", VALUE_MAP, &record) ||
	    !get(map, "resolved", VALUE_BOOL, &resolved))
		return -EINVAL;
	r = protocol_unpack(record.raw.p, record.raw.n, MSG_record, &m, &fault);
	if (r < 0)
		return r;
	/* One that names no call has its id of a reason, which is nowhere; it grants
	 * nothing. */
	if (m.has_path)
		r = escalation_id(b->digest, &m, (struct slice){ 0 }, id);
	if (r == 0 && m.has_path && !slice_is(m.escalation, id)) {
		log_error("an escalation of the record is not believed: its id is not one of "
			  "this installation's key");
		return 0;
	}
	if (r == 0)
		r = escalations_add(&b->escalations, &m);
	if (r < 0)
		return r;
	e = escalations_find(&b->escalations, m.escalation);
	e->resolved = resolved.boolean;
	return 0;
}

/* What a broker before us decided and did not settle may have happened (D-10). */
static int
key_read(struct broker *b, struct slice map)
{
	struct value key, fingerprint, actor, settled;

	if (!get(map, "key", VALUE_BIN, &key) || key.bytes.n != REPLAY_DIGEST_BYTES ||
	    !get(map, "fingerprint", VALUE_BIN, &fingerprint) ||
	    fingerprint.bytes.n != REPLAY_DIGEST_BYTES ||
	    !get(map, "actor", VALUE_STR, &actor) ||
	    !get(map, "settled", VALUE_BOOL, &settled))
		return -EINVAL;
	return replay_restore(b->replay, key.bytes.p, fingerprint.bytes.p, actor.bytes,
	    settled.boolean ? REPLAY_expired : REPLAY_interrupted);
}

int
state_asks_read(struct broker *b, const struct msg_state_load_reply *page)
{
	int r = state_each_map(b, page->escalations, escalation_read);

	return r == 0 ? state_each_map(b, page->keys, key_read) : r;
}
