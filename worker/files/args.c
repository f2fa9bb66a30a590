#include "worker/files/args.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/files/literal.h"
#include "worker/files/workspace.h"

#define ARG(field, type, required, min, max) \
	{ #field, type, required, min, max, offsetof(struct files_args, field), \
	    offsetof(struct files_args, has_##field) }
#define END_OF_ARGS { .name = NULL }

#define PATH_ARG(required) ARG(path, ARG_STRING, required, 0, 16447)
#define CURSOR_ARG	   ARG(cursor, ARG_STRING, false, 1, 32768)
#define LIMIT_ARG	   ARG(limit, ARG_INTEGER, false, 1, FILES_LIST_MAX)
#define EXPECT_ARG	   ARG(expect, ARG_STRING, false, 64, 64)

static const struct arg_desc list_args[] = {
	PATH_ARG(false),
	CURSOR_ARG,
	LIMIT_ARG,
	END_OF_ARGS,
};
static const struct arg_desc read_args[] = {
	PATH_ARG(true),
	ARG(offset, ARG_INTEGER, false, 0, (1ull << 53) - 1),
	ARG(length, ARG_INTEGER, false, 1, FILES_READ_MAX),
	END_OF_ARGS,
};
static const struct arg_desc stat_args[] = {
	PATH_ARG(true),
	END_OF_ARGS,
};
static const struct arg_desc search_args[] = {
	PATH_ARG(false),
	ARG(name, ARG_STRING, true, 1, 256),
	CURSOR_ARG,
	LIMIT_ARG,
	END_OF_ARGS,
};
static const struct arg_desc write_args[] = {
	PATH_ARG(true),
	ARG(text, ARG_STRING, false, 0, ARGUMENTS_MAX),
	ARG(base64, ARG_STRING, false, 0, ARGUMENTS_MAX),
	ARG(createOnly, ARG_BOOLEAN, false, 0, 1),
	EXPECT_ARG,
	END_OF_ARGS,
};
static const struct arg_desc grep_args[] = {
	PATH_ARG(false),
	ARG(text, ARG_STRING, true, 1, LITERAL_MAX),
	ARG(ignoreCase, ARG_BOOLEAN, false, 0, 1),
	ARG(name, ARG_STRING, false, 1, 256),
	CURSOR_ARG,
	LIMIT_ARG,
	END_OF_ARGS,
};
static const struct arg_desc delete_args[] = {
	PATH_ARG(true),
	EXPECT_ARG,
	END_OF_ARGS,
};
static const struct arg_desc rename_args[] = {
	PATH_ARG(false),
	ARG(from, ARG_STRING, true, 1, SEGMENT_BYTES_MAX),
	ARG(to, ARG_STRING, true, 1, SEGMENT_BYTES_MAX),
	ARG(replace, ARG_BOOLEAN, false, 0, 1),
	EXPECT_ARG,
	END_OF_ARGS,
};
static const struct arg_desc mkdir_args[] = {
	PATH_ARG(true),
	END_OF_ARGS,
};

/* ---- a session's workspace --------------------------------------------------------------- */

static const struct arg_desc store_args[] = {
	PATH_ARG(true),
	ARG(content, ARG_BYTES, true, 0, RESULT_MAX),
	ARG(append, ARG_BOOLEAN, false, 0, 1),
	END_OF_ARGS,
};
static const struct arg_desc make_args[] = {
	PATH_ARG(true),
	ARG(recursive, ARG_BOOLEAN, false, 0, 1),
	END_OF_ARGS,
};
static const struct arg_desc move_args[] = {
	ARG(from, ARG_STRING, true, 1, 16447),
	ARG(to, ARG_STRING, true, 1, 16447),
	END_OF_ARGS,
};
static const struct arg_desc fetch_args[] = {
	PATH_ARG(true),
	ARG(offset, ARG_INTEGER, false, 0, (1ull << 53) - 1),
	ARG(length, ARG_INTEGER, false, 1, WORKSPACE_READ_MAX),
	END_OF_ARGS,
};

static const struct {
	const char *tool;
	const struct arg_desc *args;
} tools[] = {
#define FILES_TOOL(id, name, action, effect, idempotent, path, schema, doc) { name, id##_args },
#include "worker/files/tools.def"
#define WORKSPACE_TOOL(id, name, args) { name, args##_args },
#include "worker/files/workspace.def"
};

const struct arg_desc *
args_of(const char *tool)
{
	size_t i;

	for (i = 0; i < countof(tools); i++)
		if (strcmp(tools[i].tool, tool) == 0)
			return tools[i].args;
	return NULL;
}

static const struct arg_desc *
find(const struct arg_desc *desc, struct slice name)
{
	for (; desc->name != NULL; desc++)
		if (slice_is(name, desc->name))
			return desc;
	return NULL;
}

static int
store(const struct arg_desc *d, const struct value *v, struct files_args *ret)
{
	uint8_t *base = (uint8_t *)ret;
	static const enum value_type types[] = { VALUE_STR, VALUE_UINT, VALUE_BOOL, VALUE_BIN };
	uint64_t measure = 0;

	if (v->type != types[d->type] && !(d->type == ARG_BYTES && v->type == VALUE_STR))
		return -EINVAL;
	if (d->type == ARG_INTEGER)
		measure = v->uint;
	else if (d->type != ARG_BOOLEAN)
		measure = v->bytes.n;
	if (d->type != ARG_BOOLEAN && (measure < d->min || measure > d->max))
		return -EINVAL;
	switch (d->type) {
	case ARG_STRING:
	case ARG_BYTES:
		memcpy(base + d->offset, &v->bytes, sizeof(v->bytes));
		break;
	case ARG_INTEGER:
		memcpy(base + d->offset, &v->uint, sizeof(v->uint));
		break;
	case ARG_BOOLEAN:
		memcpy(base + d->offset, &v->boolean, sizeof(v->boolean));
		break;
	}
	*(bool *)(void *)(base + d->has) = true;
	return 0;
}

int
args_unpack(const struct arg_desc *desc, struct slice map, struct files_args *ret,
    const char **ret_field)
{
	const struct arg_desc *d;
	struct files_args args = { 0 };
	struct value v = value_next(&map), key;
	uint32_t i, pairs = v.type == VALUE_MAP ? v.count : 0;

	*ret_field = "arguments";
	if (v.type != VALUE_MAP)
		return -EINVAL;
	for (i = 0; i < pairs; i++) {
		key = value_next(&map);
		d = find(desc, key.bytes);
		if (d == NULL)
			return -EINVAL;
		v = value_skip(&map);
		*ret_field = d->name;
		if (store(d, &v, &args) < 0)
			return -EINVAL;
		*ret_field = "arguments";
	}
	for (d = desc; d->name != NULL; d++) {
		*ret_field = d->name;
		if (d->required && !*(bool *)(void *)((uint8_t *)&args + d->has))
			return -EINVAL;
	}
	*ret = args;
	return 0;
}
