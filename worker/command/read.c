#include "worker/command/command.h"

#include <stdio.h>

static int
refuse(struct command_fault *fault, const char *message)
{
	fault->code = "invalid_argument";
	fault->status = 126;
	snprintf(fault->message, sizeof(fault->message), "%s", message);
	return -1;
}

/* A string of the kernel's; NULL if it is none. */
static char *
copy_string(struct caisson_value v)
{
	size_t n;
	const char *p = caisson_bytes(v, &n);
	char *copy;

	if (caisson_type(v) != CAISSON_STR || memchr(p, '\0', n) != NULL)
		return NULL;
	copy = malloc(n + 1);
	if (copy != NULL) {
		memcpy(copy, p, n);
		copy[n] = '\0';
	}
	return copy;
}

/* The strings of an array, or of a map in the order key, value; NULL if one is none. */
static char **
copy_strings(struct caisson_value v)
{
	struct caisson_cursor it = caisson_iterate(v);
	struct caisson_value item;
	/* Each value has a byte at least: a count cannot ask for more than came. */
	char **strings = calloc(it.left + 1, sizeof(*strings));
	size_t n = 0;

	while (strings != NULL && caisson_next(&it, &item)) {
		strings[n] = copy_string(item);
		if (strings[n++] == NULL)
			return NULL;
	}
	return strings;
}

static int
read_argv(struct caisson_value v, struct command *c, struct command_fault *fault)
{
	if (caisson_type(v) != CAISSON_ARRAY || caisson_iterate(v).left == 0)
		return refuse(fault, "argv: expected an array of strings, at least one");
	c->argv = copy_strings(v);
	if (c->argv == NULL)
		return refuse(fault, "argv: expected strings without NUL");
	return c->argv[0][0] != '\0' ? 0 : refuse(fault, "argv: the first string is empty");
}

static int
read_shell(struct caisson_value v, struct command *c, struct command_fault *fault)
{
	static char *argv[] = { (char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c", NULL,
		NULL };

	argv[2] = copy_string(v);
	if (argv[2] == NULL)
		return refuse(fault, "shell: expected a string without NUL");
	c->argv = argv;
	return 0;
}

/* A name that leads up could lead out of the workspace. */
static bool
leads_up(const char *path)
{
	for (; *path != '\0'; path += strcspn(path, "/"), path += *path == '/')
		if (strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0'))
			return true;
	return false;
}

static int
read_directory(struct caisson_value v, struct command *c, struct command_fault *fault)
{
	c->directory = copy_string(v);
	if (c->directory == NULL || c->directory[0] == '\0')
		return refuse(fault, "directory: expected a string without NUL");
	if (c->directory[0] == '/' || leads_up(c->directory))
		return refuse(fault, "directory: it must be relative, and have no .. in it");
	return 0;
}

static int
read_env(struct caisson_value v, struct command *c, struct command_fault *fault)
{
	size_t i;

	if (caisson_type(v) == CAISSON_MAP)
		c->env = copy_strings(v);
	if (c->env == NULL)
		return refuse(fault, "env: expected a map of strings without NUL");
	for (i = 0; c->env[i] != NULL; i += 2)
		if (c->env[i][0] == '\0' || strchr(c->env[i], '=') != NULL)
			return refuse(fault, "env: a name is empty or has a = in it");
	return 0;
}

static int
read_stdin(struct caisson_value v, struct command *c, struct command_fault *fault)
{
	if (caisson_type(v) != CAISSON_BIN)
		return refuse(fault, "stdin: expected bytes");
	c->stdin_bytes = caisson_bytes(v, &c->stdin_n);
	c->has_stdin = true;
	return 0;
}

static const struct {
	const char *name;
	int (*read)(struct caisson_value v, struct command *c, struct command_fault *fault);
} members[] = {
	{ "argv", read_argv },
	{ "shell", read_shell },
	{ "directory", read_directory },
	{ "env", read_env },
	{ "stdin", read_stdin },
};
#define MEMBERS (sizeof(members) / sizeof(*members))

static size_t
member_of(struct caisson_value key)
{
	size_t i = 0;

	while (i < MEMBERS && !caisson_is(key, members[i].name))
		i++;
	return i;
}

int
command_read(struct caisson_value params, struct command *ret, struct command_fault *fault)
{
	struct caisson_cursor it = caisson_iterate(params);
	struct command c = { .argv = NULL };
	struct caisson_value key, value;
	unsigned seen = 0;
	size_t i;

	if (caisson_type(params) != CAISSON_MAP)
		return refuse(fault, "expected a map");
	while (caisson_next(&it, &key) && caisson_next(&it, &value)) {
		i = member_of(key);
		if (i == MEMBERS || seen & 1u << i)
			return refuse(fault, "a member is unknown, or stands there twice");
		seen |= 1u << i;
		if (members[i].read(value, &c, fault) < 0)
			return -1;
	}
	if (it.left > 0)
		return refuse(fault, "it is cut off");
	if ((seen & 3) != 1 && (seen & 3) != 2)
		return refuse(fault, "expected exactly one of argv and shell");
	*ret = c;
	return 0;
}
