#include "common/wshead.h"

#include <errno.h>
#include <string.h>

#include <openssl/sha.h>

#include "common/base64.h"

#define FIN	 0x80
#define RESERVED 0x70
#define OPCODE	 0x0f
#define MASKED	 0x80
#define LENGTH	 0x7f

bool
wshead_is_control(unsigned type)
{
	return (type & 0x8) != 0;
}

/* The first two bytes. */
static bool
is_sound(uint8_t first, uint8_t second, bool masked)
{
	unsigned type = first & OPCODE, length = second & LENGTH;

	if ((first & RESERVED) != 0 || ((second & MASKED) != 0) != masked)
		return false;
	if (type > WSHEAD_PONG || (type > WSHEAD_BINARY && type < WSHEAD_CLOSE))
		return false;
	return !wshead_is_control(type) ||
	    ((first & FIN) != 0 && length <= WSHEAD_CONTROL_MAX);
}

int
wshead_read(const uint8_t *p, size_t n, bool masked, struct wshead *ret)
{
	unsigned length, wide;
	uint64_t value;

	if (n < 2)
		return 0;
	if (!is_sound(p[0], p[1], masked))
		return -EPROTO;
	length = p[1] & LENGTH;
	wide = length == 126 ? 2 : length == 127 ? 8 : 0;
	if (n < 2 + wide)
		return 0;
	value = wide == 0 ? length : 0;
	for (unsigned i = 0; i < wide; i++)
		value = value << 8 | p[2 + i];
	/* In its shortest form. */
	if ((wide == 2 && value < 126) || (wide == 8 && (value <= UINT16_MAX || value >> 63)))
		return -EPROTO;
	*ret = (struct wshead){ .type = p[0] & OPCODE, .last = (p[0] & FIN) != 0,
		.bytes = 2 + wide + (masked ? WSHEAD_MASK : 0), .payload_bytes = value };
	return 1;
}

size_t
wshead_write(enum wshead_type type, const uint8_t *mask, uint64_t payload_bytes,
    uint8_t ret[WSHEAD_MAX])
{
	unsigned wide = payload_bytes < 126 ? 0 : payload_bytes <= UINT16_MAX ? 2 : 8;
	size_t n = 0;

	ret[n++] = (uint8_t)(FIN | type);
	ret[n] = (uint8_t)(wide == 0 ? payload_bytes : wide == 2 ? 126 : 127);
	ret[n++] |= mask != NULL ? MASKED : 0;
	for (unsigned i = wide; i > 0; i--)
		ret[n++] = (uint8_t)(payload_bytes >> (8 * (i - 1)));
	if (mask != NULL) {
		memcpy(ret + n, mask, WSHEAD_MASK);
		n += WSHEAD_MASK;
	}
	return n;
}

bool
wshead_accept(struct slice key, char ret[WSHEAD_ACCEPT + 1])
{
	static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t text[WSHEAD_KEY + sizeof(suffix) - 1], digest[SHA_DIGEST_LENGTH], raw[18];
	size_t n;

	if (key.n != WSHEAD_KEY || base64_decode(key.p, key.n, raw, &n) < 0 || n != 16)
		return false;
	memcpy(text, key.p, WSHEAD_KEY);
	memcpy(text + WSHEAD_KEY, suffix, sizeof(suffix) - 1);
	SHA1(text, sizeof(text), digest);
	base64_encode(digest, sizeof(digest), ret);
	ret[WSHEAD_ACCEPT] = '\0';
	return true;
}
