#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/lib/wire.h"
#include "common/utf8.h"
#include "common/util.h"

/* Answers of a gateway: HTTP/1.1, with a length, no encoding.  Whoever answers otherwise is no
 * gateway, or one that is not to be trusted to mean one thing. */

#define HEAD_MAX (32u << 10)
#define BODY_MAX (2u << 20)

struct header {
	struct slice name, value;
};

static bool
is_named(const struct header *h, const char *name)
{
	return h->name.n == strlen(name) &&
	    strncasecmp((const char *)h->name.p, name, h->name.n) == 0;
}

/* Is `word` one of those in a list with commas? */
static bool
value_has(const struct header *h, const char *word)
{
	const char *p = (const char *)h->value.p, *end = p + h->value.n;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma != NULL ? comma : end;
		const char *last = stop;

		while (p < last && isspace((unsigned char)*p))
			p++;
		while (p < last && isspace((unsigned char)last[-1]))
			last--;
		if ((size_t)(last - p) == strlen(word) && strncasecmp(p, word, strlen(word)) == 0)
			return true;
		p = stop + 1;
	}
	return false;
}

/* The line without its end at the front of `rest`, which moves past it. */
static struct slice
take_line(struct slice *rest)
{
	const uint8_t *end = memmem(rest->p, rest->n, "\r\n", 2);
	struct slice line = { rest->p, (size_t)(end - rest->p) };

	rest->p = end + 2;
	rest->n -= line.n + 2;
	return line;
}

static bool
parse_header(struct slice line, struct header *ret)
{
	const uint8_t *colon = memchr(line.p, ':', line.n);

	if (colon == NULL || colon == line.p || isspace(line.p[0]))
		return false;
	ret->name = (struct slice){ line.p, (size_t)(colon - line.p) };
	ret->value = (struct slice){ colon + 1, line.n - ret->name.n - 1 };
	while (ret->value.n > 0 && (ret->value.p[0] == ' ' || ret->value.p[0] == '\t'))
		ret->value.p++, ret->value.n--;
	while (ret->value.n > 0 && isspace(ret->value.p[ret->value.n - 1]))
		ret->value.n--;
	return memchr(line.p, '\0', line.n) == NULL && memchr(line.p, '\r', line.n) == NULL;
}

static bool
parse_length(struct slice value, size_t *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < value.n; i++) {
		if (!isdigit(value.p[i]))
			return false;
		n = n * 10 + (size_t)(value.p[i] - '0');
		if (n > BODY_MAX)
			return false;
	}
	*ret = n;
	return value.n > 0;
}

static int
bad(struct caisson_error *error, const char *why)
{
	return error_set(error, "protocol", "this is no answer of a gateway: %s", why);
}

static bool
parse_status(struct slice line, unsigned *ret)
{
	char text[16];

	if (line.n < 12 || memcmp(line.p, "HTTP/1.1 ", 9) != 0 || (line.n > 12 && line.p[12] != ' '))
		return false;
	snprintf(text, sizeof text, "%.3s", (const char *)line.p + 9);
	return strspn(text, "0123456789") == 3 && sscanf(text, "%u", ret) == 1 && *ret >= 100;
}

/* 0; -1 for what may not stand there, or not twice. */
static int
take_header(const struct header *h, struct wire_response *ret, struct caisson_error *error)
{
	if (is_named(h, "Transfer-Encoding"))
		return bad(error, "it is encoded");
	if (is_named(h, "Content-Length")) {
		if (ret->has_length || !parse_length(h->value, &ret->body_bytes))
			return bad(error, "its length is not one number within the bound");
		ret->has_length = true;
	} else if (is_named(h, "Connection")) {
		ret->close |= value_has(h, "close");
		ret->connection_upgrade |= value_has(h, "upgrade");
	} else if (is_named(h, "Upgrade")) {
		ret->upgrade |= value_has(h, "websocket");
	} else if (is_named(h, "Sec-WebSocket-Extensions") ||
	    is_named(h, "Sec-WebSocket-Protocol")) {
		ret->unasked = true;
	} else if (is_named(h, "Sec-WebSocket-Accept")) {
		if (ret->accept[0] != '\0')
			return bad(error, "it answers two handshakes");
		snprintf(ret->accept, sizeof ret->accept, "%.*s", (int)h->value.n,
		    (const char *)h->value.p);
	}
	return 0;
}

int
wire_parse_response(struct slice in, struct wire_response *ret, struct caisson_error *error)
{
	const uint8_t *end = in.n > 0 ? memmem(in.p, in.n, "\r\n\r\n", 4) : NULL;
	struct slice rest, line;
	struct header h;

	*ret = (struct wire_response){ 0 };
	if (end == NULL)
		return in.n > HEAD_MAX ? bad(error, "its head has no end") : 0;
	ret->head_bytes = (size_t)(end - in.p) + 4;
	rest = (struct slice){ in.p, ret->head_bytes - 2 };
	if (!parse_status(take_line(&rest), &ret->status))
		return bad(error, "it does not begin with HTTP/1.1 and a status");
	while (rest.n > 0) {
		line = take_line(&rest);
		if (!parse_header(line, &h))
			return bad(error, "a header without name or with a line break");
		if (take_header(&h, ret, error) < 0)
			return -1;
	}
	if (!ret->has_length && ret->status != 101 && ret->status != 204)
		return bad(error, "it has no length");
	return 1;
}

bool
wire_is_part(const char *name)
{
	size_t n = name != NULL ? strlen(name) : 0;

	if (n == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return false;
	for (size_t i = 0; i < n;) {
		uint32_t c;
		int length = utf8_next((const uint8_t *)name + i, n - i, &c);

		if (length <= 0 || utf8_is_control(c) || (c < 0x80 && strchr("/\\?#", (int)c) != NULL))
			return false;
		i += (size_t)length;
	}
	return true;
}

void
wire_encode(struct buf *out, const char *text)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
	char code[4];

	for (; *text != '\0'; text++) {
		if (strchr(plain, *text) != NULL) {
			buf_add(out, text, 1);
			continue;
		}
		snprintf(code, sizeof code, "%%%02X", (unsigned char)*text);
		buf_add(out, code, 3);
	}
}
