#include "gateway/wsframe.h"

#include <errno.h>

#include "common/utf8.h"
#include "gateway/websocket.h"

static int
fault(unsigned code, unsigned *ret_code)
{
	*ret_code = code;
	return -EPROTO;
}

static void
unmask(uint8_t *p, size_t n, const uint8_t mask[WSHEAD_MASK])
{
	uint32_t once;
	utf8_block wide;
	size_t i;

	memcpy(&once, mask, WSHEAD_MASK);
	wide = (utf8_block){ once, once };
	wide |= wide << 32;
	for (i = 0; n - i >= sizeof(wide); i += sizeof(wide))
		*(utf8_block *)(p + i) ^= wide;
	for (; i < n; i++)
		p[i] ^= mask[i % WSHEAD_MASK];
}

int
wsframe_read(uint8_t *p, size_t n, size_t max, struct wsframe *ret, size_t *ret_used,
    unsigned *ret_code)
{
	struct wshead h;
	int r = wshead_read(p, n, true, &h);

	if (r < 0)
		return fault(WS_PROTOCOL, ret_code);
	if (r > 0 && h.payload_bytes > max && !wshead_is_control(h.type))
		return fault(WS_TOO_BIG, ret_code);
	if (r == 0 || n < h.bytes || n - h.bytes < h.payload_bytes)
		return 0;
	unmask(p + h.bytes, h.payload_bytes, p + h.bytes - WSHEAD_MASK);
	*ret = (struct wsframe){ .type = h.type, .last = h.last,
		.payload = { p + h.bytes, h.payload_bytes } };
	*ret_used = h.bytes + h.payload_bytes;
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
	if (f->type == WSHEAD_BINARY)
		return fault(WS_POLICY, ret_code);
	if (m->begun != (f->type == WSHEAD_CONTINUATION))
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
wsframe_put(struct buf *out, enum wshead_type type, struct slice payload)
{
	uint8_t head[WSHEAD_MAX];
	size_t n = wshead_write(type, NULL, payload.n, head);
	uint8_t *p = buf_room(out, n + payload.n);

	if (p == NULL)
		return;
	memcpy(p, head, n);
	if (payload.n > 0)
		memcpy(p + n, payload.p, payload.n);
}

void
wsframe_put_close(struct buf *out, unsigned code, struct slice reason)
{
	uint8_t payload[WSHEAD_CONTROL_MAX] = { (uint8_t)(code >> 8), (uint8_t)code };
	size_t n = reason.n < WS_REASON_MAX ? reason.n : WS_REASON_MAX;

	if (code == WS_NO_STATUS) {
		wsframe_put(out, WSHEAD_CLOSE, (struct slice){ payload, 0 });
		return;
	}
	while (n > 0 && n < reason.n && (reason.p[n] & 0xc0) == 0x80)
		n--;
	if (n > 0)
		memcpy(payload + 2, reason.p, n);
	wsframe_put(out, WSHEAD_CLOSE, (struct slice){ payload, n + 2 });
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
