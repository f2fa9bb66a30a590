/*
 * schema_pattern_parse: the text of a pattern becomes a tree.
 */
#include <errno.h>
#include <string.h>

#include "broker/schema_pattern_class.h"

#define GROUPS_DEEP_MAX 32
#define COUNT_MAX	PATTERN_PROGRAM_MAX /* of {n}: more would be too large anyway */

struct parser {
	const uint8_t *p, *end;
	struct zone *trees, *z;
	const char *why;
	unsigned depth;
};

static int
bad(struct parser *x, const char *why)
{
	x->why = why;
	return -EINVAL;
}

static bool
at(const struct parser *x, char c)
{
	return x->p < x->end && *x->p == (uint8_t)c;
}

static bool
at_text(const struct parser *x, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(x->end - x->p) >= n && memcmp(x->p, text, n) == 0;
}

/* The next character of what is known to be UTF-8 and not at its end. */
static uint32_t
take(struct parser *x)
{
	uint32_t c = *x->p++;
	unsigned more = c < 0xc0 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;

	if (more > 0)
		c &= 0x3fu >> more;
	while (more-- > 0)
		c = c << 6 | (*x->p++ & 0x3f);
	return c;
}

static int
make(struct parser *x, enum pattern_op op, struct pattern_node **ret)
{
	*ret = zone_alloc(x->trees, 1, sizeof(**ret));
	if (*ret == NULL)
		return -ENOMEM;
	(*ret)->op = op;
	return 0;
}

/* ---- escapes -------------------------------------------------------------------------- */

/* `n` hexadecimal digits; 0: as many as there are. */
static int
hexadecimal(struct parser *x, unsigned n, uint32_t *ret)
{
	uint32_t v = 0, c;
	unsigned i;

	for (i = 0; n == 0 || i < n; i++) {
		c = x->p < x->end ? *x->p | 0x20u : 0;
		if (c >= '0' && c <= '9' && *x->p <= '9')
			v = v << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (c - 'a' + 10);
		else
			break;
		if (v > 0x10ffff)
			return bad(x, "has a character beyond U+10FFFF");
		x->p++;
	}
	if (i == 0 || i < n)
		return bad(x, "has an escape without its digits");
	*ret = v;
	return 0;
}

/* Behind \u. */
static int
unicode(struct parser *x, uint32_t *ret)
{
	uint32_t low;
	int r;

	if (at(x, '{')) {
		x->p++;
		r = hexadecimal(x, 0, ret);
		if (r == 0 && !at(x, '}'))
			return bad(x, "has an escape without its digits");
		x->p += r == 0;
		return r;
	}
	r = hexadecimal(x, 4, ret);
	if (r < 0 || *ret < 0xd800 || *ret > 0xdfff)
		return r;
	if (*ret >= 0xdc00 || !at_text(x, "\\u"))
		return bad(x, "has half of a surrogate pair");
	x->p += 2;
	r = hexadecimal(x, 4, &low);
	if (r < 0)
		return r;
	if (low < 0xdc00 || low > 0xdfff)
		return bad(x, "has half of a surrogate pair");
	*ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
	return 0;
}

static bool
is_letter(uint32_t c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* Behind a backslash: one character. */
static int
escaped(struct parser *x, uint32_t *ret)
{
	static const char from[] = "tnvfr", to[] = "\t\n\v\f\r";
	const char *found;
	uint32_t c;

	if (x->p == x->end)
		return bad(x, "ends with a backslash");
	c = take(x);
	if (c == 'x')
		return hexadecimal(x, 2, ret);
	if (c == 'u')
		return unicode(x, ret);
	if (c == '0' && !(x->p < x->end && *x->p >= '0' && *x->p <= '9')) {
		*ret = 0;
		return 0;
	}
	if (c == 'c') {
		if (x->p == x->end || !is_letter(*x->p))
			return bad(x, "has \\c without a letter");
		*ret = *x->p++ & 0x1f;
		return 0;
	}
	if ((c >= '0' && c <= '9') || c == 'k')
		return bad(x, "has a back reference, which is not offered");
	if (c == 'p' || c == 'P')
		return bad(x, "has \\p, which is not offered");
	found = is_letter(c) ? strchr(from, (int)c) : NULL;
	if (is_letter(c) && found == NULL)
		return bad(x, "has an escape that ECMA-262 does not know");
	*ret = found != NULL ? (uint32_t)to[found - from] : c;
	return 0;
}

/* Is a set next (\d and the like)?  Adds it. */
static int
escaped_set(struct parser *x, struct class_draft *d)
{
	char c = x->end - x->p >= 2 && *x->p == '\\' ? (char)x->p[1] : '\0';
	int r;

	if (c == '\0' || strchr("dwsDWS", c) == NULL)
		return 0;
	x->p += 2;
	r = class_add_set(d, (char)(c | 0x20), (c & 0x20) == 0);
	return r < 0 ? r : 1;
}

/* ---- classes -------------------------------------------------------------------------- */

/* One part of a class: returns 1 for a set, which is added, 0 for one character. */
static int
class_part(struct parser *x, struct class_draft *d, uint32_t *ret)
{
	int r = escaped_set(x, d);

	if (r != 0)
		return r;
	if (x->p == x->end)
		return bad(x, "has a class without its end");
	if (!at(x, '\\')) {
		*ret = take(x);
		return 0;
	}
	x->p++;
	if (at(x, 'b')) {
		x->p++;
		*ret = '\b';
		return 0;
	}
	return escaped(x, ret);
}

static int
class_member(struct parser *x, struct class_draft *d)
{
	uint32_t low = 0, high = 0;
	int first, second, r = 0;

	first = class_part(x, d, &low);
	if (first < 0)
		return first;
	if (!at(x, '-') || at_text(x, "-]"))
		return first == 1 ? 0 : class_add(d, low, low);
	x->p++;
	second = class_part(x, d, &high);
	if (second < 0)
		return second;
	if (first == 0 && second == 0)
		return low > high ? bad(x, "has a range that ends before it begins")
				  : class_add(d, low, high);
	/* Beside a set it is no range. */
	r = class_add(d, '-', '-');
	if (r == 0 && first == 0)
		r = class_add(d, low, low);
	if (r == 0 && second == 0)
		r = class_add(d, high, high);
	return r;
}

/* Behind [. */
static int
class_of(struct parser *x, const struct pattern_class **ret)
{
	struct class_draft d = { NULL, 0, 0 };
	bool opposite = at(x, '^');
	int r = 0;

	x->p += opposite;
	while (r == 0 && !at(x, ']'))
		r = class_member(x, &d);
	if (r == 0) {
		x->p++;
		r = class_make(&d, opposite, x->z, ret);
	}
	class_finish(&d);
	return r;
}

static int
set_of(struct parser *x, struct class_draft *d, struct pattern_node **ret)
{
	int r = make(x, PATTERN_CLASS, ret);

	if (r == 0)
		r = class_make(d, false, x->z, &(*ret)->class);
	class_finish(d);
	return r;
}

/* ---- terms ---------------------------------------------------------------------------- */

static int choice(struct parser *x, struct pattern_node **ret);

/* Behind (. */
static int
group(struct parser *x, struct pattern_node **ret)
{
	int r;

	if (at_text(x, "?:")) {
		x->p += 2;
	} else if (at_text(x, "?=") || at_text(x, "?!") || at_text(x, "?<=") ||
		   at_text(x, "?<!")) {
		return bad(x, "looks ahead or behind, which is not offered");
	} else if (at_text(x, "?<")) {
		for (x->p += 2; x->p < x->end && *x->p != '>'; x->p++)
			if (*x->p < 0x80 && !is_letter(*x->p) && *x->p != '_' && *x->p != '$' &&
			    (*x->p < '0' || *x->p > '9'))
				return bad(x, "has a group with a name that is none");
		if (x->p == x->end || x->p[-1] == '<')
			return bad(x, "has a group with a name that is none");
		x->p++;
	} else if (at(x, '?')) {
		return bad(x, "has a kind of group that ECMA-262 does not know");
	}
	if (++x->depth > GROUPS_DEEP_MAX)
		return bad(x, "nests more than 32 groups");
	r = choice(x, ret);
	x->depth--;
	if (r < 0)
		return r;
	if (!at(x, ')'))
		return bad(x, "has a group without its end");
	x->p++;
	return 0;
}

static bool
count(struct parser *x, uint32_t *ret)
{
	const uint8_t *start = x->p;
	uint32_t v = 0;

	for (; x->p < x->end && *x->p >= '0' && *x->p <= '9'; x->p++)
		if (v <= COUNT_MAX)
			v = v * 10 + (*x->p - '0');
	*ret = v;
	return x->p > start;
}

/* {n}, {n,} or {n,m}: true, and moves behind it. */
static bool
counted(struct parser *x, uint32_t *min, uint32_t *max)
{
	const uint8_t *start = x->p;

	x->p++;
	if (count(x, min)) {
		*max = *min;
		if (at(x, ',')) {
			x->p++;
			if (!count(x, max))
				*max = PATTERN_UNBOUNDED;
		}
		if (at(x, '}')) {
			x->p++;
			return true;
		}
	}
	x->p = start;
	return false;
}

/* Is a quantifier next? */
static bool
quantifier(struct parser *x, uint32_t *min, uint32_t *max)
{
	if (at(x, '{'))
		return counted(x, min, max);
	if (!at(x, '*') && !at(x, '+') && !at(x, '?'))
		return false;
	*min = *x->p == '+';
	*max = *x->p == '?' ? 1 : PATTERN_UNBOUNDED;
	x->p++;
	return true;
}

static int
assertion(struct parser *x, struct pattern_node **ret)
{
	static const struct {
		const char *text;
		enum pattern_op op;
	} all[] = { { "^", PATTERN_START }, { "$", PATTERN_END }, { "\\b", PATTERN_EDGE },
		{ "\\B", PATTERN_NO_EDGE } };
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!at_text(x, all[i].text))
			continue;
		x->p += strlen(all[i].text);
		return make(x, all[i].op, ret) < 0 ? -ENOMEM : 1;
	}
	return 0;
}

static int
atom(struct parser *x, struct pattern_node **ret)
{
	struct class_draft d = { NULL, 0, 0 };
	uint32_t min, max;
	int r;

	if (quantifier(x, &min, &max))
		return bad(x, "has nothing to repeat");
	r = escaped_set(x, &d);
	if (r != 0)
		return r < 0 ? r : set_of(x, &d, ret);
	if (at(x, '.')) {
		x->p++;
		r = class_add_set(&d, 'n', true);
		return r < 0 ? r : set_of(x, &d, ret);
	}
	if (at(x, '(')) {
		x->p++;
		return group(x, ret);
	}
	r = make(x, at(x, '[') ? PATTERN_CLASS : PATTERN_CHARACTER, ret);
	if (r < 0)
		return r;
	if ((*ret)->op == PATTERN_CLASS) {
		x->p++;
		return class_of(x, &(*ret)->class);
	}
	if (at(x, '\\')) {
		x->p++;
		return escaped(x, &(*ret)->character);
	}
	(*ret)->character = take(x);
	return 0;
}

/* An assertion, or an atom with its quantifier. */
static int
term(struct parser *x, struct pattern_node **ret)
{
	struct pattern_node *repeat;
	uint32_t min, max;
	int r = assertion(x, ret);

	if (r == 0)
		r = atom(x, ret);
	if (r != 0)
		return r < 0 ? r : 0;
	if (!quantifier(x, &min, &max))
		return 0;
	if (at(x, '?')) /* lazy: matches the same texts */
		x->p++;
	if (min > max)
		return bad(x, "has a range that ends before it begins");
	r = make(x, PATTERN_REPEAT, &repeat);
	if (r < 0)
		return r;
	repeat->min = min;
	repeat->max = max;
	repeat->first = *ret;
	*ret = repeat;
	return 0;
}

static int
sequence(struct parser *x, struct pattern_node **ret)
{
	struct pattern_node **last;
	int r = make(x, PATTERN_SEQUENCE, ret);

	if (r < 0)
		return r;
	for (last = &(*ret)->first; x->p < x->end && !at(x, '|') && !at(x, ')');
	     last = &(*last)->next) {
		r = term(x, last);
		if (r < 0)
			return r;
	}
	return 0;
}

static int
choice(struct parser *x, struct pattern_node **ret)
{
	struct pattern_node **last;
	int r = make(x, PATTERN_CHOICE, ret);

	if (r < 0)
		return r;
	for (last = &(*ret)->first;; last = &(*last)->next) {
		r = sequence(x, last);
		if (r < 0 || !at(x, '|'))
			return r;
		x->p++;
	}
}

int
pattern_parse(struct slice text, struct zone *trees, struct zone *z, struct pattern_node **ret,
    const char **ret_why)
{
	struct parser x = { text.p, text.p + text.n, trees, z, NULL, 0 };
	int r;

	if (text.n > PATTERN_BYTES_MAX)
		r = bad(&x, "is longer than 4096 bytes");
	else
		r = choice(&x, ret);
	if (r == 0 && x.p < x.end)
		r = bad(&x, "has a ) too many");
	if (r == -EINVAL)
		*ret_why = x.why;
	return r;
}
