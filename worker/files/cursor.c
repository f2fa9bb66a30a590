#include "worker/files/cursor.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base64.h"
#include "common/util.h"
#include "common/walk.h"
#include "worker/files/text.h"

void
cursor_pack(struct buf *out, char kind, const struct segments *at, size_t n)
{
	cleanup_free char *text = malloc(1 + SEGMENTS_TEXT_MAX);
	cleanup_free char *encoded = malloc(base64_size(1 + SEGMENTS_TEXT_MAX));
	size_t used;

	if (text == NULL || encoded == NULL) {
		out->failed = true;
		return;
	}
	text[0] = kind;
	used = 1 + segments_join(at, n, text + 1);
	base64_encode((uint8_t *)text, used, encoded);
	pack_str_n(out, encoded, base64_size(used));
}

int
cursor_unpack(struct slice text, char kind, struct cursor *ret)
{
	cleanup_free uint8_t *bytes = malloc(text.n / 4 * 3 + 1);
	struct cursor c;
	size_t n;

	if (bytes == NULL)
		return -ENOMEM;
	if (base64_decode(text.p, text.n, bytes, &n) < 0 || n < 2 || bytes[0] != (uint8_t)kind ||
	    segments_parse((struct slice){ bytes + 1, n - 1 }, &c.at) < 0 || c.at.n == 0 ||
	    c.at.slash)
		return -EINVAL;
	c.text = (char *)bytes;
	bytes = NULL;
	*ret = c;
	return 0;
}

void
cursor_finish(struct cursor *c)
{
	free(c->text);
	c->text = NULL;
}
