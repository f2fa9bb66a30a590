/*
 * A row, a state, and a frame.  The row decides who speaks to whom and which request is
 * open.  What decodes can be encoded, and that decodes to what encodes to the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void
must(bool ok)
{
	if (!ok)
		abort();
}

/* Any open request will do for any id. */
static int
pending(void *arg, uint32_t msgid)
{
	enum msg_type type = *(enum msg_type *)arg;

	(void)msgid;
	return protocol_desc(type)->kind == MSG_RESPONSE ? (int)type - 1 : -1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct buf once = { 0 }, twice = { 0 };
	enum link_state state;
	const struct msg_desc *desc;
	enum role from, to;
	struct fault fault = { 0 };
	struct message m;
	enum msg_type type;

	if (n < 2)
		return 0;
	type = (enum msg_type)(p[0] % MSG_TYPE_MAX);
	desc = protocol_desc(type);
	from = sample_role(desc->from);
	to = sample_role(desc->to);
	state = (enum link_state)(1u << p[1] % 3);
	if (protocol_decode(p + 2, n - 2, from, to, state, pending, &type, &m, &fault) < 0) {
		must(fault.rule != NULL && fault.offset <= n - 2);
		return 0;
	}
	if (sample_encode(&once, &m) == 0) {
		must(protocol_decode(once.p + 4, once.n - 4, from, to, state, pending, &type,
			 &m, &fault) == 0);
		must(sample_encode(&twice, &m) == 0);
		must(once.n == twice.n && memcmp(once.p, twice.p, once.n) == 0);
	} else {
		/* Only an error with details or a NUL, which no public function writes. */
		must(m.failed);
	}
	buf_finish(&once);
	buf_finish(&twice);
	return 0;
}
