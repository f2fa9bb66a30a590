#include "worker/files/files.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/files/args.h"

const struct files_tool files_tools[] = {
#define FILES_TOOL(id, name, action, effect, idempotent, path, schema, doc) \
	{ name, action, path, schema, doc, effect_##effect == effect_write, idempotent, \
	    files_##id },
#include "worker/files/tools.def"
	{ .name = NULL },
};

static const struct {
	const char *name, *canonical, *text;
	bool retryable;
} codes[FILES_CODE_MAX] = {
	[FILES_OK] = { "ok", "ok", "", false },
#define CODE(id, retryable, canonical, text) \
	[FILES_##id] = { #id, #canonical, text, retryable },
#include "worker/files/codes.def"
};

static const struct {
	int error;
	enum files_code code;
} errors[] = {
	{ ENOENT, FILES_not_found },
	{ ESTALE, FILES_not_found },
	{ EISDIR, FILES_is_directory },
	{ ENOTDIR, FILES_not_directory },
	{ ENXIO, FILES_not_regular },
	{ ELOOP, FILES_symlink },
	{ EXDEV, FILES_symlink },
	{ EEXIST, FILES_exists },
	{ ENOTEMPTY, FILES_not_empty },
	{ EFBIG, FILES_no_space },
	{ ENOSPC, FILES_no_space },
	{ EDQUOT, FILES_no_space },
	{ E2BIG, FILES_too_large },
	{ EMLINK, FILES_too_large },
	{ EACCES, FILES_permission },
	{ EPERM, FILES_permission },
	{ EOVERFLOW, FILES_permission }, /* of an owner that has no number here */
	{ EBUSY, FILES_permission }, /* something is mounted on it */
	{ EROFS, FILES_permission },
	{ ETXTBSY, FILES_permission },
	{ ENAMETOOLONG, FILES_invalid_tool_arguments },
	{ EINVAL, FILES_invalid_tool_arguments },
	{ EILSEQ, FILES_invalid_tool_arguments },
};

const char *
files_code_name(enum files_code c)
{
	return codes[c].name;
}

const char *
files_code_canonical(enum files_code c)
{
	return codes[c].canonical;
}

const char *
files_code_text(enum files_code c)
{
	return codes[c].text;
}

bool
files_code_retryable(enum files_code c)
{
	return codes[c].retryable;
}

enum files_code
files_code_of(int error)
{
	size_t i;

	for (i = 0; i < countof(errors); i++)
		if (errors[i].error == -error)
			return errors[i].code;
	return FILES_io;
}

static const struct files_tool *
find_tool(struct slice name)
{
	const struct files_tool *t;

	for (t = files_tools; t->name != NULL; t++)
		if (slice_is(name, t->name))
			return t;
	return NULL;
}

/* The argument must name what was decided; left out, it names the root. */
static int
check_path(struct files_call *call, struct slice decided)
{
	struct segments named = { .n = 0 };

	if (segments_unpack(decided, &call->path) < 0)
		return -EINVAL;
	if (call->args.has_path && segments_parse(call->args.path, &named) < 0)
		return -EINVAL;
	if (!segments_equal(&named, &call->path))
		return -EINVAL;
	call->path.slash = named.slash;
	return 0;
}

enum files_code
files_serve(struct files_root *root, struct slice tool, struct slice arguments,
    struct slice decided, struct files_reply *reply)
{
	const struct files_tool *t = find_tool(tool);
	struct files_call call = { .root = root };
	enum files_code code;

	if (t == NULL)
		return files_fail(reply, "tool", FILES_tool_unavailable);
	if (args_unpack(args_of(t->name), arguments, &call.args, &reply->field) < 0)
		return FILES_invalid_tool_arguments;
	if (check_path(&call, decided) < 0)
		return files_fail(reply, "path", FILES_invalid_tool_arguments);
	code = t->serve(&call, reply);
	if (code == FILES_OK && reply->out.failed)
		code = files_fail(reply, "path", FILES_io);
	if (code != FILES_OK)
		buf_finish(&reply->out);
	return code;
}
