#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "client/lib/wire.h"
#include "common/base64.h"

#define OPCODE_CLOSE 8u
#define OPCODE_PONG  10u

static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

void
wire_key(char ret[25])
{
	uint8_t random[16];

	arc4random_buf(random, sizeof random);
	base64_encode(random, sizeof random, ret);
	ret[24] = '\0';
}

void
wire_accept(const char key[25], char ret[29])
{
	uint8_t text[24 + sizeof guid], digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	memcpy(text, key, 24);
	memcpy(text + 24, guid, sizeof guid);
	EVP_Digest(text, 24 + sizeof guid - 1, digest, &n, EVP_sha1(), NULL);
	base64_encode(digest, 20, ret);
	ret[28] = '\0';
}

void
wire_frame(struct buf *out, unsigned opcode, const void *p, size_t n)
{
	uint8_t head[14] = { (uint8_t)(0x80 | opcode) }, *body;
	size_t at = 2, length = n < 126 ? 0 : n < 65536 ? 2 : 8, i;
	uint8_t mask[4];

	head[1] = (uint8_t)(0x80 | (length == 0 ? n : length == 2 ? 126u : 127u));
	for (i = 0; i < length; i++)
		head[at++] = (uint8_t)((uint64_t)n >> 8 * (length - 1 - i));
	arc4random_buf(mask, sizeof mask);
	memcpy(head + at, mask, sizeof mask);
	buf_add(out, head, at + sizeof mask);
	body = buf_room(out, n);
	for (i = 0; body != NULL && i < n; i++)
		body[i] = ((const uint8_t *)p)[i] ^ mask[i % 4];
}

int
wire_parse_frame(struct slice in, struct wire_frame_head *ret)
{
	size_t length, i;

	if (in.n < 2)
		return 0;
	ret->final = in.p[0] & 0x80;
	ret->opcode = in.p[0] & 0x0f;
	ret->bytes = in.p[1] & 0x7f;
	length = ret->bytes == 126 ? 2 : ret->bytes == 127 ? 8 : 0;
	/* No extension was asked for, and servers do not mask. */
	if ((in.p[0] & 0x70) != 0 || (in.p[1] & 0x80) != 0)
		return -1;
	if (ret->opcode > OPCODE_PONG || (ret->opcode > 2 && ret->opcode < OPCODE_CLOSE))
		return -1;
	if (ret->opcode >= OPCODE_CLOSE && (!ret->final || length > 0))
		return -1;
	ret->head_bytes = 2 + length;
	if (in.n < ret->head_bytes)
		return 0;
	if (length > 0) {
		ret->bytes = 0;
		for (i = 0; i < length; i++)
			ret->bytes = ret->bytes << 8 | in.p[2 + i];
		if (ret->bytes < (length == 2 ? 126u : 65536u))
			return -1; /* not the shortest */
	}
	return 1;
}
