#include "common/options.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/limits.h"
#include "common/util.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static int
parse_scaled(const char *text, const struct unit *units, uint64_t max, uint64_t *ret)
{
	uint64_t n = 0;
	const char *s = text;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	for (; isdigit((unsigned char)*s); s++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
			return -ERANGE;
	for (; units->name != NULL; units++)
		if (strcmp(s, units->name) == 0)
			break;
	if (units->name == NULL)
		return -EINVAL;
	if (__builtin_mul_overflow(n, units->factor, &n) || n > max)
		return -ERANGE;
	*ret = n;
	return 0;
}

int
options_parse_number(const char *text, uint64_t max, uint64_t *ret)
{
	static const struct unit units[] = { { "", 1 }, { NULL, 0 } };

	return parse_scaled(text, units, max, ret);
}

int
options_parse_duration(const char *text, uint64_t *ret_ms)
{
	static const struct unit units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 },
		{ "h", 3600000 }, { NULL, 0 } };

	return parse_scaled(text, units, UINT32_MAX, ret_ms);
}

int
options_parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct unit units[] = { { "B", 1 }, { "KiB", 1ull << 10 },
		{ "MiB", 1ull << 20 }, { "GiB", 1ull << 30 }, { "TiB", 1ull << 40 },
		{ NULL, 0 } };

	return parse_scaled(text, units, INT64_MAX, ret_bytes);
}

int
options_parse_time(const char *text, uint64_t *ret_ms)
{
	static const char shape[] = "0000-00-00T00:00:00Z";
	struct tm tm = { 0 }, back;
	const char *end;
	time_t t;
	size_t i;

	for (i = 0; shape[i] != '\0'; i++)
		if (shape[i] == '0' ? !isdigit((unsigned char)text[i]) : text[i] != shape[i])
			return -EINVAL;
	if (text[i] != '\0')
		return -EINVAL;
	end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (end == NULL || *end != '\0')
		return -EINVAL;
	back = tm;
	t = timegm(&back);
	/* timegm() turns a 30th of February into a day in March. */
	if (t < 0 || back.tm_mday != tm.tm_mday || back.tm_mon != tm.tm_mon || tm.tm_sec > 59)
		return -EINVAL;
	*ret_ms = (uint64_t)t * 1000;
	return 0;
}

const char *
options_segment_fault(const char *s, size_t n)
{
	size_t i;

	if (n == 0)
		return "has an empty segment";
	if (n > PATH_SEGMENT_MAX)
		return "has a segment over 256 bytes";
	if (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')))
		return "has a segment . or ..";
	if (s[0] == ' ' || s[n - 1] == ' ')
		return "has a segment with a space at its end";
	for (i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f || s[i] == '/' || s[i] == '\\')
			return "has a segment with a separator or control character";
	return NULL;
}

const char *
options_address_fault(const char *s)
{
	static const char *const kinds[] = { "human:", "agent:", "group:", "service:" };
	size_t i, n;

	for (i = 0; i < countof(kinds); i++) {
		n = strlen(kinds[i]);
		if (strncmp(s, kinds[i], n))
			continue;
		if (s[n] == '\0')
			return "has no id";
		if (strlen(s + n) > 256)
			return "has an id over 256 bytes";
		return NULL;
	}
	return "is no address";
}

size_t
options_next_segment(const char **path, const char **ret)
{
	const char *end, *s;

	for (s = *path; *s != '\0'; s = *end != '\0' ? end + 1 : end) {
		end = strchrnul(s, '/');
		if (end == s || (end == s + 1 && *s == '.'))
			continue;
		*ret = s;
		*path = *end != '\0' ? end + 1 : end;
		return (size_t)(end - s);
	}
	*path = s;
	return 0;
}
