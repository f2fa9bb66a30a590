/*
 * json_value: packed values written as JSON, so that a table of tests can be read.
 */
#ifndef TESTS_JSON_VALUE_H
#define TESTS_JSON_VALUE_H

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/walk.h"

static void
json_value_add(struct buf *b, json_t *j)
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
			json_value_add(b, member);
		}
		break;
	case JSON_ARRAY:
		pack_array(b, (uint32_t)json_array_size(j));
		json_array_foreach(j, i, member) json_value_add(b, member);
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

/* Packs `text` into `b`, which it empties first; single quotes stand for double ones. */
static struct slice
json_value(struct buf *b, const char *text)
{
	char *json = strdup(text);
	json_error_t error;
	struct fault fault;
	json_t *j;
	char *p;

	ck_assert_ptr_nonnull(json);
	for (p = json; *p != '\0'; p++)
		if (*p == '\'')
			*p = '"';
	j = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	ck_assert_msg(j != NULL, "%s: %s", text, error.text);
	buf_finish(b);
	json_value_add(b, j);
	json_decref(j);
	free(json);
	ck_assert(!b->failed);
	ck_assert_int_eq(walk_value(b->p, b->n, &fault), 0);
	return (struct slice){ b->p, b->n };
}

#endif /* TESTS_JSON_VALUE_H */
