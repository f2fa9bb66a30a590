/*
 * files: one call of the built-in `files` provider, from its arguments to its reply.
 *
 * A call acts on the path that was decided and on nothing else: its `path` argument is
 * only compared with it.  Every handler does bounded work, holds bounded memory and
 * leaves no descriptor open.  Nothing here knows the link.
 */
#ifndef WORKER_FILES_FILES_H
#define WORKER_FILES_FILES_H

#include "common/protocol.h"
#include "worker/files/root.h"
#include "worker/files/segments.h"

#define FILES_READ_MAX	(512u << 10) /* bytes of one read; as base64 it still fits RESULT_MAX */
#define FILES_LIST_MAX	1000u /* entries of one reply */
#define FILES_REPLY_MAX (512u << 10) /* bytes of entries in one reply of search */

enum files_code {
	FILES_OK = 0,
#define CODE(id, retryable, canonical, text) FILES_##id,
#include "worker/files/codes.def"
	FILES_CODE_MAX
};

/* The arguments of every tool; which of them one takes is a table in args.c. */
struct files_args {
	bool has_path, has_cursor, has_limit, has_offset, has_length;
	bool has_name, has_text, has_base64, has_createOnly, has_expect;
	bool has_from, has_to, has_replace, has_ignoreCase;
	bool has_content, has_append, has_recursive;
	struct slice path, cursor, name, text, base64, expect, from, to, content;
	uint64_t limit, offset, length;
	bool createOnly, replace, ignoreCase, append, recursive;
};

struct files_call {
	struct files_root *root;
	struct segments path; /* decided */
	struct files_args args;
};

/* What a handler leaves behind.  `out` is void when it failed. */
struct files_reply {
	struct buf out; /* a packed map */
	const char *field; /* the argument that a failure is about; static */
};

/* One tool: a row of tools.def. */
struct files_tool {
	const char *name, *action, *path, *schema, *doc;
	bool writes, idempotent;
	enum files_code (*serve)(const struct files_call *call, struct files_reply *reply);
};

/* Every tool; ends with a NULL name. */
extern const struct files_tool files_tools[];

/*
 * Serves one call of `tool` with packed `arguments` on the packed list of names `decided`.
 * On FILES_OK `reply->out` holds the packed result, which the caller releases with
 * buf_finish().  `reply` starts as zeroes.
 */
enum files_code files_serve(struct files_root *root, struct slice tool,
    struct slice arguments, struct slice decided, struct files_reply *reply);

/* "not_found", the canonical status, its text, and whether trying again may help. */
const char *files_code_name(enum files_code c);
const char *files_code_canonical(enum files_code c);
const char *files_code_text(enum files_code c);
bool files_code_retryable(enum files_code c);
/* The code of a negative errno. */
enum files_code files_code_of(int error);

/* Handlers, one per row of tools.def. */
enum files_code files_list(const struct files_call *call, struct files_reply *reply);
enum files_code files_read(const struct files_call *call, struct files_reply *reply);
enum files_code files_stat(const struct files_call *call, struct files_reply *reply);
enum files_code files_search(const struct files_call *call, struct files_reply *reply);
enum files_code files_grep(const struct files_call *call, struct files_reply *reply);
enum files_code files_write(const struct files_call *call, struct files_reply *reply);
enum files_code files_delete(const struct files_call *call, struct files_reply *reply);
enum files_code files_rename(const struct files_call *call, struct files_reply *reply);
enum files_code files_mkdir(const struct files_call *call, struct files_reply *reply);

/*
 * The slice of the file that `call` names: from its offset, of its length at most, which is
 * FILES_READ_MAX if it has none.  The caller frees `*ret_bytes`.
 */
enum files_code files_read_bytes(const struct files_call *call, struct files_reply *reply,
    uint8_t **ret_bytes, size_t *ret_n, uint64_t *ret_size);

/* Says which argument a failure is about, and returns the code. */
static inline enum files_code
files_fail(struct files_reply *reply, const char *field, enum files_code code)
{
	reply->field = field;
	return code;
}

#endif /* WORKER_FILES_FILES_H */
