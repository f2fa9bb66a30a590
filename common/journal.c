#include "common/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/sha256.h"

int
journal_seal(struct buf *out, uint8_t chain[JOURNAL_HASH], struct slice map)
{
	uint32_t n = (uint32_t)(JOURNAL_HASH + map.n);
	uint8_t *p;

	if (map.n == 0 || map.n > JOURNAL_ENTRY_MAX - JOURNAL_HEAD)
		return -ERANGE;
	if (out->failed)
		return -ENOMEM;
	p = buf_room(out, JOURNAL_HEAD + map.n);
	if (p == NULL) {
		out->failed = false;
		return -ENOMEM;
	}
	p[0] = (uint8_t)(n >> 24);
	p[1] = (uint8_t)(n >> 16);
	p[2] = (uint8_t)(n >> 8);
	p[3] = (uint8_t)n;
	sha256((struct slice){ chain, JOURNAL_HASH }, map, p + 4);
	memcpy(p + JOURNAL_HEAD, map.p, map.n);
	memcpy(chain, p + 4, JOURNAL_HASH);
	return 0;
}

int
journal_entry(struct buf *out, uint8_t chain[JOURNAL_HASH], const struct msg_record *r)
{
	struct buf map = { 0 };
	int ret;

	ret = protocol_pack(&map, MSG_record, r);
	if (ret == 0)
		ret = journal_seal(out, chain, buf_slice(&map));
	buf_finish(&map);
	return ret;
}

static enum journal_read
bad(struct fault *fault, const char *rule)
{
	*fault = (struct fault){ .rule = rule };
	return JOURNAL_READ_BAD;
}

enum journal_read
journal_next(const uint8_t *p, size_t n, uint8_t chain[JOURNAL_HASH], struct msg_record *ret,
    size_t *ret_len, struct fault *fault)
{
	uint8_t next[JOURNAL_HASH];
	struct msg_record r;
	struct slice map;
	uint32_t len;

	*fault = (struct fault){ 0 };
	if (n == 0)
		return JOURNAL_READ_END;
	if (n < 4)
		return JOURNAL_READ_SHORT;
	len = protocol_length(p);
	if (len <= JOURNAL_HASH)
		return bad(fault, "entry without a record");
	if (len > JOURNAL_ENTRY_MAX - 4)
		return bad(fault, "entry too long");
	if (n - 4 < len)
		return JOURNAL_READ_SHORT;
	map = (struct slice){ p + JOURNAL_HEAD, len - JOURNAL_HASH };
	sha256((struct slice){ chain, JOURNAL_HASH }, map, next);
	if (protocol_unpack(map.p, map.n, MSG_record, &r, fault) < 0)
		return JOURNAL_READ_BAD;
	if (memcmp(next, p + 4, JOURNAL_HASH) != 0)
		return JOURNAL_READ_CHAIN;
	memcpy(chain, next, JOURNAL_HASH);
	*ret = r;
	*ret_len = 4 + (size_t)len;
	return JOURNAL_READ_OK;
}

void
journal_name(char name[17], uint64_t number)
{
	assert(number >= 1 && number <= 99999999);
	snprintf(name, 17, "journal.%08u", (unsigned)number);
}

uint64_t
journal_number(const char *name)
{
	uint64_t number = 0;
	const char *p;

	if (strncmp(name, "journal.", 8) != 0)
		return 0;
	for (p = name + 8; *p >= '0' && *p <= '9' && p < name + 16; p++)
		number = number * 10 + (uint64_t)(*p - '0');
	return p == name + 16 && *p == '\0' ? number : 0;
}
