#include "common/options_private.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

int
options_choice(const char *choices, const char *word)
{
	size_t n = strlen(word), len;
	int i;

	for (i = 0;; i++, choices += len + 1) {
		len = strcspn(choices, "|");
		if (len == n && memcmp(choices, word, n) == 0)
			return i;
		if (choices[len] == '\0')
			return -ENOENT;
	}
}

/* Why it is not a path below a root, as broker/authority will read it; NULL for a good one. */
static const char *
allow_path_fault(const char *path)
{
	const char *s = path, *end;

	if (*path == '\0')
		return "has no path";
	if (*path == '/')
		return "has an absolute path; it is relative to the provider's root";
	for (;; s = end + 1) {
		end = strchrnul(s, '/');
		if (end - s == 2 && s[0] == '.' && s[1] == '.')
			return "leads out of the provider's root";
		if (*end == '\0')
			return NULL;
	}
}

static const char *
split_allow(char *text, struct option_pair *ret)
{
	char *colon = strchr(text, ':');

	if (colon == NULL)
		return "is not ACTION:PATH";
	*colon = '\0';
	ret->left = text;
	ret->right = colon + 1;
	if (options_choice("read|write|list|search|grep|delete|rename|mkdir", text) < 0)
		return "does not begin with read, write, list, search, grep, delete, rename or "
		       "mkdir";
	return allow_path_fault(ret->right);
}

static const char *
take_text(char *text, struct option_pair *ret)
{
	ret->left = text;
	ret->right = NULL;
	return *text == '\0' ? "is empty" : NULL;
}

static const char *
split_mount(char *text, struct option_pair *ret)
{
	char *colon = strrchr(text, ':');

	ret->left = text;
	ret->right = NULL;
	if (colon != NULL) {
		*colon = '\0';
		ret->right = colon + 1;
		if (colon[1] != '/')
			return "names a place in the chamber that is not absolute";
	}
	if (*text == '\0')
		return "has no path";
	return NULL;
}

static const char *
split_env(char *text, struct option_pair *ret)
{
	char *equals = strchr(text, '=');
	size_t i;

	ret->left = text;
	ret->right = NULL;
	if (equals != NULL) {
		*equals = '\0';
		ret->right = equals + 1;
	}
	if (*text == '\0' || isdigit((unsigned char)*text))
		return "does not begin with a name";
	for (i = 0; text[i] != '\0'; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return "has a name with other characters than letters, digits and _";
	return NULL;
}

const char *
options_split(enum option_kind kind, char *text, struct option_pair *ret)
{
	switch (kind) {
	case OPTION_TEXTS: return take_text(text, ret);
	case OPTION_ALLOW: return split_allow(text, ret);
	case OPTION_MOUNT: return split_mount(text, ret);
	default: return split_env(text, ret);
	}
}
