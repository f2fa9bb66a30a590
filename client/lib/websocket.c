#include <stdlib.h>

#include "client/lib/wire.h"
#include "common/base64.h"

void
wire_key(char ret[WSHEAD_KEY + 1])
{
	uint8_t random[16];

	arc4random_buf(random, sizeof random);
	base64_encode(random, sizeof random, ret);
	ret[WSHEAD_KEY] = '\0';
}

void
wire_frame(struct buf *out, enum wshead_type type, const void *p, size_t n)
{
	uint8_t head[WSHEAD_MAX], mask[WSHEAD_MASK], *body;

	arc4random_buf(mask, sizeof mask);
	buf_add(out, head, wshead_write(type, mask, n, head));
	body = buf_room(out, n);
	for (size_t i = 0; body != NULL && i < n; i++)
		body[i] = ((const uint8_t *)p)[i] ^ mask[i % WSHEAD_MASK];
}
