/*
 * schema_check: the broker's JSON Schema, one question a line: {"schema": S, "values": [...]}.
 * Answers each with a line: {"refused": "why"} of the declaration, or {"results": [...]}, a text
 * for each value, "" if it passes.  What cannot be a message of ours, as an integer of more
 * than 64 bits, is {"unreadable": "why"}.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/schema.h"
#include "common/walk.h"

static void
pack(struct buf *b, json_t *j)
{
	const char *key;
	json_t *member;
	size_t i;

	switch (json_typeof(j)) {
	case JSON_OBJECT:
		pack_map(b, (uint32_t)json_object_size(j));
		json_object_foreach(j, key, member)
		{
			pack_str(b, key);
			pack(b, member);
		}
		break;
	case JSON_ARRAY:
		pack_array(b, (uint32_t)json_array_size(j));
		json_array_foreach(j, i, member) pack(b, member);
		break;
	case JSON_STRING: pack_str_n(b, json_string_value(j), json_string_length(j)); break;
	case JSON_INTEGER:
		if (json_integer_value(j) < 0)
			pack_int(b, json_integer_value(j));
		else
			pack_uint(b, (uint64_t)json_integer_value(j));
		break;
	case JSON_REAL: pack_real(b, json_real_value(j)); break;
	case JSON_TRUE:
	case JSON_FALSE: pack_bool(b, json_is_true(j)); break;
	case JSON_NULL: pack_nil(b); break;
	}
}

/* Packs into `b` and walks it; NULL, or what is wrong with it. */
static const char *
packed(struct buf *b, json_t *j)
{
	struct fault fault = { 0 };

	b->n = 0;
	pack(b, j);
	if (b->failed)
		return "out of memory";
	return walk_value(b->p, b->n, &fault) < 0 ? fault.rule : NULL;
}

static json_t *
check(const struct schema *s, json_t *values)
{
	json_t *results = json_array(), *value;
	struct buf b = { 0 };
	const char *unreadable = NULL;
	char err[512];
	size_t i;
	int r;

	json_array_foreach(values, i, value)
	{
		unreadable = packed(&b, value);
		if (unreadable != NULL)
			break;
		err[0] = '\0';
		r = schema_check(s, buf_slice(&b), err, sizeof err);
		if (r != 0 && r != -EINVAL)
			abort();
		json_array_append_new(results, json_string(err));
	}
	buf_finish(&b);
	if (unreadable == NULL)
		return json_pack("{s:o}", "results", results);
	json_decref(results);
	return json_pack("{s:s}", "unreadable", unreadable);
}

static json_t *
answer(const char *line)
{
	struct schema *s = NULL;
	struct buf b = { 0 };
	const char *unreadable;
	json_error_t error;
	char err[512] = "";
	json_t *j, *said;
	int r;

	j = json_loads(line, JSON_ALLOW_NUL, &error);
	if (j == NULL)
		return json_pack("{s:s}", "unreadable", error.text);
	unreadable = packed(&b, json_object_get(j, "schema"));
	r = unreadable != NULL ? 0 : schema_compile(buf_slice(&b), &s, err, sizeof err);
	if (r != 0 && r != -EINVAL)
		abort();
	said = unreadable != NULL ? json_pack("{s:s}", "unreadable", unreadable)
	       : r < 0		  ? json_pack("{s:s}", "refused", err)
				  : check(s, json_object_get(j, "values"));
	schema_destroy(s);
	buf_finish(&b);
	json_decref(j);
	return said;
}

int
main(void)
{
	char *line = NULL;
	size_t cap = 0;
	json_t *said;

	while (getline(&line, &cap, stdin) > 0) {
		said = answer(line);
		if (said == NULL)
			abort();
		json_dumpf(said, stdout, JSON_COMPACT);
		putchar('\n');
		fflush(stdout);
		json_decref(said);
	}
	free(line);
	return 0;
}
