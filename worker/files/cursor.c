#include "worker/files/cursor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/util.h"
#include "common/walk.h"
#include "worker/files/text.h"

#define PLACE_BYTES sizeof(struct cursor_place)

/* The place as it lies in memory: whoever reads it is the same program. */
static void
pack(struct buf *out, char kind, const struct segments *at, const void *place, size_t n)
{
	cleanup_free char *text = malloc(1 + PLACE_BYTES + SEGMENTS_TEXT_MAX);
	cleanup_free char *encoded = malloc(base64_size(1 + PLACE_BYTES + SEGMENTS_TEXT_MAX));
	size_t used = 1 + n;

	if (text == NULL || encoded == NULL) {
		out->failed = true;
		return;
	}
	text[0] = kind;
	memcpy(text + 1, place, n);
	used += segments_join(at, at->n, text + used);
	base64_encode((uint8_t *)text, used, encoded);
	pack_str_n(out, encoded, base64_size(used));
}

static int
unpack(struct slice text, char kind, size_t place_bytes, struct cursor *ret)
{
	cleanup_free uint8_t *bytes = malloc(text.n / 4 * 3 + 1);
	struct cursor c = { .text = NULL };
	struct slice names;
	size_t n;

	if (bytes == NULL)
		return -ENOMEM;
	if (base64_decode(text.p, text.n, bytes, &n) < 0 || n < 1 + place_bytes ||
	    bytes[0] != (uint8_t)kind)
		return -EINVAL;
	names = (struct slice){ bytes + 1 + place_bytes, n - 1 - place_bytes };
	if (segments_parse(names, &c.at) < 0 || c.at.slash)
		return -EINVAL;
	memcpy(&c.place, bytes + 1, place_bytes);
	c.text = (char *)bytes;
	bytes = NULL;
	*ret = c;
	return 0;
}

void
cursor_pack(struct buf *out, char kind, const struct segments *at)
{
	pack(out, kind, at, "", 0);
}

void
cursor_pack_place(struct buf *out, char kind, const struct segments *at,
    struct cursor_place place)
{
	pack(out, kind, at, &place, sizeof(place));
}

int
cursor_unpack(struct slice text, char kind, struct cursor *ret)
{
	int e = unpack(text, kind, 0, ret);

	if (e == 0 && ret->at.n == 0) {
		cursor_finish(ret);
		return -EINVAL;
	}
	return e;
}

int
cursor_unpack_place(struct slice text, char kind, struct cursor *ret)
{
	return unpack(text, kind, PLACE_BYTES, ret);
}

void
cursor_finish(struct cursor *c)
{
	free(c->text);
	c->text = NULL;
}
