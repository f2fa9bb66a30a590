#include "worker/files/glob.h"

#include "worker/files/text.h"

/* Does `c` match the set whose first byte after `[` is at `*at`?  Moves `*at` past its
 * end.  */
enum set_match { SET_NO, SET_YES, SET_BROKEN };

static enum set_match
set_match(struct slice p, size_t *at, uint32_t c)
{
	bool negated = *at < p.n && (p.p[*at] == '!' || p.p[*at] == '^');
	bool hit = false, first = true;
	uint32_t from, to;

	*at += negated;
	for (; *at < p.n; first = false) {
		if (p.p[*at] == ']' && !first) {
			(*at)++;
			return hit != negated ? SET_YES : SET_NO;
		}
		from = to = text_next(p.p, p.n, at);
		if (*at + 1 < p.n && p.p[*at] == '-' && p.p[*at + 1] != ']') {
			(*at)++;
			to = text_next(p.p, p.n, at);
		}
		if (c >= from && c <= to)
			hit = true;
	}
	return SET_BROKEN;
}

bool
glob_is_valid(struct slice pattern)
{
	size_t at = 0;
	bool partial;

	if (text_utf8(pattern.p, pattern.n, &partial) != pattern.n)
		return false;
	while (at < pattern.n)
		if (pattern.p[at++] == '[' && set_match(pattern, &at, 0) == SET_BROKEN)
			return false;
	return true;
}

/* One character of the name against one element, which is no star, of the pattern. */
static bool
match_one(struct slice p, size_t *pat, struct slice s, size_t *sat)
{
	uint32_t c = text_next(s.p, s.n, sat);

	switch (p.p[*pat]) {
	case '?':
		(*pat)++;
		return true;
	case '[':
		(*pat)++;
		return set_match(p, pat, c) == SET_YES;
	default:
		return text_next(p.p, p.n, pat) == c;
	}
}

bool
glob_match(struct slice p, struct slice s, uint64_t *steps)
{
	size_t pat = 0, sat = 0, star = 0, resume = 0, before;
	bool starred = false;

	for (;;) {
		before = pat;
		if (pat < p.n && p.p[pat] == '*') {
			starred = true;
			star = ++pat;
			resume = sat;
		} else if (pat == p.n && sat == s.n) {
			return true;
		} else if (pat == p.n || sat == s.n || !match_one(p, &pat, s, &sat)) {
			/* What an earlier star took can stay: only the last takes one more. */
			if (!starred || resume >= s.n)
				return false;
			text_next(s.p, s.n, &resume);
			sat = resume;
			pat = star;
		}
		*steps += pat > before ? pat - before : 1;
	}
}
