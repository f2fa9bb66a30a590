#include "client/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* bytes of JSON: over ARGUMENTS_MAX packed, blanks and all */
#define TEXT_MAX (2u << 20)

char *
input_read(const char *path, char err[JSON_ERROR_MAX])
{
	bool input = strcmp(path, "-") == 0;
	FILE *f = input ? stdin : fopen(path, "re");
	char *text = f != NULL ? malloc(TEXT_MAX + 1) : NULL;
	size_t n = text != NULL ? fread(text, 1, TEXT_MAX + 1, f) : 0;

	err[0] = '\0';
	if (text == NULL || ferror(f))
		snprintf(err, JSON_ERROR_MAX, "%.200s: %s", path, strerror(errno));
	else if (n > TEXT_MAX)
		snprintf(err, JSON_ERROR_MAX, "%.200s: is more than %u bytes", path, TEXT_MAX);
	else if (memchr(text, '\0', n) != NULL)
		snprintf(err, JSON_ERROR_MAX, "%.200s: holds a NUL byte", path);
	else
		text[n] = '\0';
	if (f != NULL && !input)
		fclose(f);
	if (err[0] == '\0')
		return text;
	free(text);
	return NULL;
}

int
input_pack(const char *word, struct buf *out, char err[JSON_ERROR_MAX])
{
	cleanup_free char *text = NULL;

	if (word[0] != '@') /* which begins no JSON */
		return json_read(word, out, err);
	text = input_read(word + 1, err);
	return text != NULL ? json_read(text, out, err) : -EINVAL;
}
