#include "gateway/wsframe.h"

#include <errno.h>

#include <openssl/sha.h>

#include "common/base64.h"
#include "common/utf8.h"
#include "gateway/websocket.h"

#define FIN	 0x80
#define RESERVED 0x70
#define OPCODE	 0x0f
#define MASKED	 0x80
#define LENGTH	 0x7f
#define MASK	 4 /* bytes */

static int
fault(unsigned code, unsigned *ret_code)
{
	*ret_code = code;
	return -EPROTO;
}

static bool
is_control(unsigned type)
{
	return (type & 0x8) != 0;
}

/* The first two bytes. */
static bool
is_head(uint8_t first, uint8_t second)
{
	unsigned type = first & OPCODE, length = second & LENGTH;

	if ((first & RESERVED) != 0 || (second & MASKED) == 0)
		return false;
	if (type > WSFRAME_PONG || (type > WSFRAME_BINARY && type < WSFRAME_CLOSE))
		return false;
	return !is_control(type) || ((first & FIN) != 0 && length <= WSFRAME_CONTROL_MAX);
}

/* How long the length is, which is in its shortest form. */
static int
read_length(const uint8_t *p, size_t n, uint64_t *ret, size_t *ret_head)
{
	unsigned length = p[1] & LENGTH, wide = length == 126 ? 2 : length == 127 ? 8 : 0;
	uint64_t value = wide == 0 ? length : 0;

	if (n < 2 + wide)
		return 0;
	for (unsigned i = 0; i < wide; i++)
		value = value << 8 | p[2 + i];
	*ret = value;
	*ret_head = 2 + wide + MASK;
	if ((wide == 2 && value < 126) || (wide == 8 && (value <= UINT16_MAX || value >> 63)))
		return -EPROTO;
	return 1;
}

static void
unmask(uint8_t *p, size_t n, const uint8_t mask[MASK])
{
	uint32_t once;
	utf8_block wide;
	size_t i;

	memcpy(&once, mask, MASK);
	wide = (utf8_block){ once, once };
	wide |= wide << 32;
	for (i = 0; n - i >= sizeof(wide); i += sizeof(wide))
		*(utf8_block *)(p + i) ^= wide;
	for (; i < n; i++)
		p[i] ^= mask[i % MASK];
}

int
wsframe_read(uint8_t *p, size_t n, size_t max, struct wsframe *ret, size_t *ret_used,
    unsigned *ret_code)
{
	uint64_t length;
	size_t head;
	int r;

	if (n < 2)
		return 0;
	if (!is_head(p[0], p[1]))
		return fault(WS_PROTOCOL, ret_code);
	r = read_length(p, n, &length, &head);
	if (r < 0)
		return fault(WS_PROTOCOL, ret_code);
	if (r > 0 && length > max && !is_control(p[0] & OPCODE))
		return fault(WS_TOO_BIG, ret_code);
	if (r == 0 || n < head || n - head < length)
		return 0;
	unmask(p + head, length, p + head - MASK);
	*ret = (struct wsframe){ .type = p[0] & OPCODE, .last = (p[0] & FIN) != 0,
		.payload = { p + head, length } };
	*ret_used = head + length;
	return 1;
}

/* ---- messages --------------------------------------------------------------------------- */

/* Characters may be cut by fragments, and by nothing else. */
static bool
check_text(struct wsmessage *m, bool last)
{
	uint32_t c;
	int step;

	while (m->checked < m->text.n) {
		step = utf8_next(m->text.p + m->checked, m->text.n - m->checked, &c);
		if (step < 0)
			return false;
		if (step == 0)
			return !last;
		m->checked += (size_t)step;
	}
	return true;
}

int
wsmessage_add(struct wsmessage *m, const struct wsframe *f, size_t max, struct slice *ret,
    unsigned *ret_code)
{
	if (f->type == WSFRAME_BINARY)
		return fault(WS_POLICY, ret_code);
	if (m->begun != (f->type == WSFRAME_CONTINUATION))
		return fault(WS_PROTOCOL, ret_code);
	if (!m->begun && f->last) {
		*ret = f->payload;
		return utf8_valid(ret->p, ret->n) ? 1 : fault(WS_NOT_TEXT, ret_code);
	}
	if (!m->begun)
		wsmessage_finish(m);
	if (f->payload.n > max - m->text.n)
		return fault(WS_TOO_BIG, ret_code);
	m->begun = !f->last;
	buf_add(&m->text, f->payload.p, f->payload.n);
	if (m->text.failed)
		return -ENOMEM;
	if (!check_text(m, f->last))
		return fault(WS_NOT_TEXT, ret_code);
	*ret = buf_slice(&m->text);
	return f->last;
}

void
wsmessage_finish(struct wsmessage *m)
{
	buf_finish(&m->text);
	*m = (struct wsmessage){ 0 };
}

/* ---- ours -------------------------------------------------------------------------------- */

void
wsframe_put(struct buf *out, enum wsframe_type type, struct slice payload)
{
	unsigned wide = payload.n < 126 ? 0 : payload.n <= UINT16_MAX ? 2 : 8;
	uint8_t *p = buf_room(out, 2 + wide + payload.n);

	if (p == NULL)
		return;
	*p++ = (uint8_t)(FIN | type);
	*p++ = (uint8_t)(wide == 0 ? payload.n : wide == 2 ? 126 : 127);
	for (unsigned i = wide; i > 0; i--)
		*p++ = (uint8_t)((uint64_t)payload.n >> (8 * (i - 1)));
	if (payload.n > 0)
		memcpy(p, payload.p, payload.n);
}

void
wsframe_put_close(struct buf *out, unsigned code, struct slice reason)
{
	uint8_t payload[WSFRAME_CONTROL_MAX] = { (uint8_t)(code >> 8), (uint8_t)code };
	size_t n = reason.n < WS_REASON_MAX ? reason.n : WS_REASON_MAX;

	if (code == WS_NO_STATUS) {
		wsframe_put(out, WSFRAME_CLOSE, (struct slice){ payload, 0 });
		return;
	}
	while (n > 0 && n < reason.n && (reason.p[n] & 0xc0) == 0x80)
		n--;
	if (n > 0)
		memcpy(payload + 2, reason.p, n);
	wsframe_put(out, WSFRAME_CLOSE, (struct slice){ payload, n + 2 });
}

/* Those of RFC 6455 and its registry that may stand in a frame. */
static bool
is_close_code(unsigned code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	    (code >= 3000 && code <= 4999);
}

unsigned
wsframe_close_code(struct slice payload, bool *ret_fault)
{
	unsigned code;

	*ret_fault = false;
	if (payload.n == 0)
		return WS_NO_STATUS;
	*ret_fault = true;
	if (payload.n == 1)
		return WS_PROTOCOL;
	code = (unsigned)payload.p[0] << 8 | payload.p[1];
	if (!is_close_code(code))
		return WS_PROTOCOL;
	if (!utf8_valid(payload.p + 2, payload.n - 2))
		return WS_NOT_TEXT;
	*ret_fault = false;
	return code;
}

bool
wsframe_accept(struct slice key, char ret[29])
{
	static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t text[24 + sizeof(suffix) - 1], digest[SHA_DIGEST_LENGTH], raw[18];
	size_t n;

	if (key.n != 24 || base64_decode(key.p, key.n, raw, &n) < 0 || n != 16)
		return false;
	memcpy(text, key.p, 24);
	memcpy(text + 24, suffix, sizeof(suffix) - 1);
	SHA1(text, sizeof(text), digest);
	base64_encode(digest, sizeof(digest), ret);
	ret[28] = '\0';
	return true;
}
