/*
 * fuzz_schema: a tool's declaration and a call's arguments, both as hostile as can be.
 *
 * Input: u16 big-endian length of a packed schema, the schema, a packed value.
 * Properties: what passes the walk never does harm; an error is a text; a schema means
 * the same twice, and the same of an equal value; arguments that pass hold every required
 * property; what a template makes of them is a path, and the same path packed.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "broker/requirement.h"
#include "broker/schema.h"
#include "broker/schema_value.h"
#include "common/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
resolve(const struct schema *s, const char *text, struct slice arguments, bool passed)
{
	struct requirement_template *t = NULL;
	struct resolved_requirement r;
	const char *code = NULL;
	struct slice in;
	struct fault fault;
	char err[64];
	size_t i;

	if (requirement_compile(text, s, &t, err, sizeof(err)) < 0) {
		assert(strlen(err) < sizeof(err));
		return;
	}
	if (requirement_resolve(t, "n", "a", arguments, &r, &code, err, sizeof(err)) == 0) {
		assert(*path_fault(&r.requirement.path) == '\0');
		assert(walk_value(r.path.p, r.path.n, &fault) == 0);
		in = (struct slice){ r.path.p, r.path.n };
		assert(value_next(&in).count == r.requirement.path.n);
		for (i = 0; i < r.requirement.path.n; i++)
			assert(slice_is(value_next(&in).bytes, r.requirement.path.segment[i]));
	} else {
		/* Arguments that a schema let pass can be no path, but they are there. */
		assert(code != NULL && (!passed || strcmp(code, "invalid_request") == 0));
		assert(strlen(err) < sizeof(err));
	}
	requirement_finish(&r);
	requirement_destroy(t);
}

/* 1.0 for 1 and the order of members are the same to a schema, unless it is too costly. */
static void
check_equal(const struct schema *s, struct slice arguments, bool passed, const char *err)
{
	struct buf b = { 0 };
	char again[64] = "";
	bool same;

	assert(value_equal_form(arguments, &b) == 0);
	same = (schema_check(s, buf_slice(&b), again, sizeof(again)) == 0) == passed;
	assert(same || strstr(err, "costly") != NULL || strstr(again, "costly") != NULL);
	buf_finish(&b);
}

static void
check(const struct schema *s, struct slice schema, struct slice arguments)
{
	struct value required, name, v;
	char err[64] = "", shorter[9];
	uint32_t i;
	bool passed;

	passed = schema_check(s, arguments, err, sizeof(err)) == 0;
	assert(passed || strlen(err) < sizeof(err));
	assert((schema_check(s, arguments, shorter, sizeof(shorter)) == 0) == passed);
	assert(passed || strlen(shorter) < sizeof(shorter));
	check_equal(s, arguments, passed, err);
	if (!schema_is_of_objects(s))
		return;
	if (passed && !value_get(schema, "$ref", &v) && value_get(schema, "required", &required)) {
		value_next(&required.raw);
		for (i = 0; i < required.count; i++) {
			name = value_next(&required.raw);
			if (slice_is(name.bytes, "path"))
				assert(value_get(arguments, "path", &v));
		}
	}
	resolve(s, "{path}", arguments, passed);
	resolve(s, "docs/{path}/x/{dir}", arguments, passed);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice schema, arguments;
	struct schema *s = NULL, *again = NULL;
	struct fault fault;
	char err[64];

	if (size < 2)
		return 0;
	schema = (struct slice){ data + 2, (size_t)data[0] << 8 | data[1] };
	if (schema.n > size - 2 || walk_value(schema.p, schema.n, &fault) < 0)
		return 0;
	arguments = (struct slice){ schema.p + schema.n, size - 2 - schema.n };
	if (schema_compile(schema, &s, err, sizeof(err)) < 0) {
		assert(strlen(err) < sizeof(err));
		assert(schema_compile(schema, &again, err, sizeof(err)) < 0);
		return 0;
	}
	if (walk_value(arguments.p, arguments.n, &fault) == 0)
		check(s, schema, arguments);
	schema_destroy(s);
	return 0;
}
