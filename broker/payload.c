#include "broker/payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/link.h"
#include "common/util.h"
#include "common/walk.h"

struct payload {
	enum operation_kind kind;
	struct buf argv, env; /* packed; empty: left out */
	char *shell, *directory, *path, *to; /* NULL: left out */
	struct buf content;
	bool has_content, append, recursive;
};

/* ---- form ----------------------------------------------------------------------------- */

/* Which kinds of operation in a session may have a member, and which must. */
#define TURN  (1u << operation_kind_turn)
#define RUN   (1u << operation_kind_command)
#define WRITE (1u << operation_kind_writeFile)
#define MAKE  (1u << operation_kind_createDirectory)
#define REMOVE (1u << operation_kind_deleteFile)
#define MOVE  (1u << operation_kind_renameFile)
#define FILES (WRITE | MAKE | REMOVE | MOVE)
#define ANY   (TURN | RUN | FILES)

/* MEMBER(field, kinds that may, kinds that must, is for a session only) */
#define MEMBERS                                 \
	MEMBER(message, TURN, 0, false)         \
	MEMBER(maxSteps, TURN, 0, false)        \
	MEMBER(maxToolCalls, TURN, 0, false)    \
	MEMBER(tools, TURN, 0, false)           \
	MEMBER(namespaces, TURN, 0, false)      \
	MEMBER(purpose, TURN, 0, false)         \
	MEMBER(actor, TURN, 0, false)           \
	MEMBER(receiver, TURN, 0, false)        \
	MEMBER(messageTrace, TURN, 0, false)    \
	MEMBER(messagePurpose, TURN, 0, false)  \
	MEMBER(state, TURN, 0, false)           \
	MEMBER(metadata, TURN, 0, false)        \
	MEMBER(input, 0, 0, false)              \
	MEMBER(idempotencyKey, ANY, 0, true)    \
	MEMBER(argv, RUN, 0, true)              \
	MEMBER(shell, RUN, 0, true)             \
	MEMBER(directory, RUN, 0, true)         \
	MEMBER(env, RUN, 0, true)               \
	MEMBER(path, FILES, FILES, true)        \
	MEMBER(to, MOVE, MOVE, true)            \
	MEMBER(content, RUN | WRITE, WRITE, true) \
	MEMBER(append, WRITE, 0, true)          \
	MEMBER(recursive, MAKE | REMOVE, 0, true)

static bool
is_file_kind(enum operation_kind kind)
{
	return 1u << kind & FILES;
}

/* The first member that is one too many, or missing, is named. */
static const char *
members_fault(const struct msg_operation_submit *m)
{
	static const struct {
		const char *name;
		unsigned may, must;
		bool session;
	} rows[] = {
#define MEMBER(field, may, must, session) { #field, may, must, session },
		MEMBERS
#undef MEMBER
	};
	const bool there[] = {
#define MEMBER(field, may, must, session) m->has_##field,
		MEMBERS
#undef MEMBER
	};
	static char text[128];
	unsigned kind = 1u << m->kind;

	for (size_t i = 0; i < countof(rows); i++) {
		const char *wrong = NULL;

		if (!m->has_session)
			wrong = there[i] && rows[i].session ? "is for an operation in a session"
							    : NULL;
		else if (there[i] && !(rows[i].may & kind))
			wrong = "is for another kind of operation, or for none in a session";
		else if (!there[i] && rows[i].must & kind)
			wrong = "is missing";
		if (wrong == NULL)
			continue;
		snprintf(text, sizeof text, "%s: %s", rows[i].name, wrong);
		return text;
	}
	return NULL;
}

static const char *
segment_fault(const uint8_t *p, size_t n)
{
	if (n == 0)
		return "path: is absolute, or has an empty name in it";
	if (n > PATH_SEGMENT_MAX)
		return "path: has a name of more than 256 bytes";
	if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
		return "path: has . or .. in it";
	for (size_t i = 0; i < n; i++)
		if (p[i] < 0x20 || p[i] == 0x7f)
			return "path: has a control character in it";
	return NULL;
}

const char *
payload_path_fault(struct slice path)
{
	size_t begin = 0, segments = 0;

	for (size_t i = 0; i <= path.n; i++) {
		const char *fault;

		if (i < path.n && path.p[i] != '/')
			continue;
		fault = segment_fault(path.p + begin, i - begin);
		if (fault != NULL)
			return fault;
		if (++segments > PATH_SEGMENTS_MAX)
			return "path: has more than 64 names in it";
		begin = i + 1;
	}
	return NULL;
}

static bool
is_c_string(struct value v)
{
	return v.type == VALUE_STR && (v.bytes.n == 0 || !memchr(v.bytes.p, '\0', v.bytes.n));
}

static const char *
argv_fault(struct slice list)
{
	struct value head = value_next(&list);

	if (head.count == 0)
		return "argv: is empty";
	for (uint32_t i = 0; i < head.count; i++) {
		struct value v = value_skip(&list);

		if (!is_c_string(v) || (i == 0 && v.bytes.n == 0))
			return "argv: is no list of texts without NUL, the first not empty";
	}
	return NULL;
}

static const char *
env_fault(struct slice map)
{
	struct value head = value_next(&map);

	for (uint32_t i = 0; i < head.count; i++) {
		struct slice name = value_key(&map);

		if (name.n == 0 || memchr(name.p, '=', name.n) || memchr(name.p, '\0', name.n))
			return "env: has a name that is empty or has = or NUL in it";
		if (!is_c_string(value_skip(&map)))
			return "env: has a value that is no text without NUL";
	}
	return NULL;
}

static const char *
command_fault(const struct msg_operation_submit *m)
{
	const char *fault = NULL;

	if (m->has_argv == m->has_shell) /* OP-11 */
		return "argv, shell: exactly one of them says what to run";
	if (m->has_argv)
		fault = argv_fault(m->argv);
	else if (memchr(m->shell.p, '\0', m->shell.n))
		fault = "shell: has a NUL in it";
	if (fault == NULL && m->has_env)
		fault = env_fault(m->env);
	if (fault == NULL && m->has_directory)
		fault = payload_path_fault(m->directory);
	return fault;
}

const char *
payload_fault(const struct msg_operation_submit *m)
{
	const char *fault = members_fault(m);

	if (fault != NULL || !m->has_session || m->kind == operation_kind_turn)
		return fault;
	if (m->kind == operation_kind_command)
		return command_fault(m);
	fault = payload_path_fault(m->path);
	if (fault == NULL && m->kind == operation_kind_renameFile)
		fault = payload_path_fault(m->to);
	return fault;
}

size_t
payload_bytes(const struct msg_operation_submit *m)
{
	return m->message.n + m->state.n + m->metadata.n + m->tools.n + m->namespaces.n +
	    m->argv.n + m->shell.n + m->env.n + m->content.n + m->path.n + m->to.n;
}

/* ---- its life ------------------------------------------------------------------------- */

static bool
copy_text(char **to, bool has, struct slice from)
{
	return !has || (*to = slice_dup(from)) != NULL;
}

struct payload *
payload_create(const struct msg_operation_submit *m)
{
	struct payload *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->kind = m->kind;
	buf_add(&p->argv, m->argv.p, m->argv.n);
	buf_add(&p->env, m->env.p, m->env.n);
	buf_add(&p->content, m->content.p, m->content.n);
	p->has_content = m->has_content;
	p->append = m->has_append && m->append;
	p->recursive = m->has_recursive && m->recursive;
	if (copy_text(&p->shell, m->has_shell, m->shell) &&
	    copy_text(&p->directory, m->has_directory, m->directory) &&
	    copy_text(&p->path, m->has_path, m->path) && copy_text(&p->to, m->has_to, m->to) &&
	    !p->argv.failed && !p->env.failed && !p->content.failed)
		return p;
	payload_destroy(p);
	return NULL;
}

void
payload_destroy(struct payload *p)
{
	if (p == NULL)
		return;
	buf_finish(&p->argv);
	buf_finish(&p->env);
	buf_finish(&p->content);
	free(p->shell);
	free(p->directory);
	free(p->path);
	free(p->to);
	free(p);
}

/* ---- what is sent --------------------------------------------------------------------- */

int
payload_send_command(const struct payload *p, struct link *l)
{
	struct msg_command_run m = {
		.has_argv = p->argv.n > 0,
		.argv = buf_slice(&p->argv),
		.has_env = p->env.n > 0,
		.env = buf_slice(&p->env),
		.has_stdin = p->has_content,
		.stdin = buf_slice(&p->content),
	};
	uint32_t msgid;

	if (p->shell != NULL) {
		m.has_shell = true;
		m.shell = slice_of(p->shell);
	}
	if (p->directory != NULL) {
		m.has_directory = true;
		m.directory = slice_of(p->directory);
	}
	return link_request(l, MSG_command_run, &m, &msgid);
}

static void
pack_flag(struct buf *b, const char *name, bool flag)
{
	pack_str(b, name);
	pack_bool(b, flag);
}

const char *
payload_pack_call(const struct payload *p, struct buf *b)
{
	static const char *const tools[] = {
		[operation_kind_writeFile] = "workspace.write",
		[operation_kind_createDirectory] = "workspace.mkdir",
		[operation_kind_deleteFile] = "workspace.delete",
		[operation_kind_renameFile] = "workspace.rename",
	};
	bool writes = p->kind == operation_kind_writeFile;
	bool moves = p->kind == operation_kind_renameFile;

	pack_map(b, writes ? 3 : 2);
	pack_str(b, moves ? "from" : "path");
	pack_str(b, p->path);
	if (moves) {
		pack_str(b, "to");
		pack_str(b, p->to);
	} else if (writes) {
		pack_str(b, "content");
		pack_bin(b, p->content.p, p->content.n);
		pack_flag(b, "append", p->append);
	} else {
		pack_flag(b, "recursive", p->recursive);
	}
	return is_file_kind(p->kind) ? tools[p->kind] : NULL;
}
