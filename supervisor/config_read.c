#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/options.h"
#include "common/util.h"
#include "common/walk.h"
#include "supervisor/config.h"

/* Where the walk is: the key in errors is the whole way to it, tools[2].requires.action. */
struct walker {
	const char *file;
	char *err;
	char key[256];
};

#define refuse(w, at, fmt, ...)                                                                \
	conf_refuse((w)->err, (w)->file, at, "%s%s" fmt, (w)->key, *(w)->key ? ": " : "",      \
	    ##__VA_ARGS__)

static void
push_key(struct walker *w, const char *key)
{
	if (*w->key)
		strlcat(w->key, ".", sizeof(w->key));
	strlcat(w->key, key, sizeof(w->key));
}

static const char *
kind_name(const struct node *node)
{
	static const char *const names[] = { "text", "a list", "a mapping" };

	return node_is_nothing(node) ? "nothing" : names[node->kind];
}

/* ---- one value --------------------------------------------------------------------- */

static int
check_text(struct walker *w, const struct conf_field *f, const struct node *node)
{
	const char *s;

	if (node->kind != NODE_TEXT || node_is_nothing(node))
		return refuse(w, node->at, "is %s, expected text", kind_name(node));
	if (node->plain && (!strcmp(node->text, "true") || !strcmp(node->text, "false")))
		return refuse(w, node->at, "is a boolean, expected text (quote it)");
	if (node->n < f->min || node->n > f->max)
		return refuse(w, node->at, "is %zu bytes long, expected %ju to %ju", node->n,
		    (uintmax_t)f->min, (uintmax_t)f->max);
	for (s = node->text; *s; s++) {
		if (f->type == CONF_PROSE && (*s == '\n' || *s == '\t'))
			continue;
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return refuse(w, node->at,
			    "holds a control character, expected one line of text");
	}
	return 0;
}

static int
store_text(struct walker *w, char **v, const char *text, struct node_at at)
{
	free(*v);
	*v = strdup(text);
	return *v ? 0 : refuse(w, at, "out of memory");
}

static int
read_text(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	int r = check_text(w, f, node);

	return r < 0 ? r : store_text(w, v, node->text, node->at);
}

static int
read_address(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	int r = check_text(w, f, node);
	const char *fault;

	if (r < 0)
		return r;
	fault = options_address_fault(node->text);
	if (fault)
		return refuse(w, node->at,
		    "\"%.80s\" %s, expected human:ID, agent:ID, group:ID or service:ID",
		    node->text, fault);
	return store_text(w, v, node->text, node->at);
}

static int
read_file(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	const char *slash = strrchr(w->file, '/');
	int r = check_text(w, f, node), dir = slash ? (int)(slash - w->file) + 1 : 0;
	cleanup_free char *path = NULL;

	if (r < 0)
		return r;
	if (node->text[0] == '/' || !dir)
		return store_text(w, v, node->text, node->at);
	if (asprintf(&path, "%.*s%s", dir, w->file, node->text) < 0) {
		path = NULL;
		return refuse(w, node->at, "out of memory");
	}
	return store_text(w, v, path, node->at);
}

static int
read_words(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	static const struct conf_field word = { .type = CONF_TEXT, .min = 0, .max = 4096 };
	struct conf_words *words = v;
	size_t i;
	int r;

	if (node->kind != NODE_LIST)
		return refuse(w, node->at, "is %s, expected a list of texts", kind_name(node));
	if (node->n < f->min && node->n == 0)
		return refuse(
		    w, node->at, "is empty, expected at least %ju", (uintmax_t)f->min);
	if (node->n < f->min || node->n > f->max)
		return refuse(w, node->at, "has %zu elements, expected %ju to %ju", node->n,
		    (uintmax_t)f->min, (uintmax_t)f->max);
	for (i = 0; i < node->n; i++) {
		r = check_text(w, &word, node->items[i]);
		if (r < 0)
			return r;
		if (conf_words_add(words, node->items[i]->text, node->items[i]->n) < 0)
			return refuse(w, node->at, "out of memory");
	}
	return 0;
}

static int
read_segments(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	static const struct conf_field path = { .type = CONF_TEXT, .min = 1, .max = 16640 };
	struct conf_words *words = v;
	const char *fault = NULL;
	size_t i;
	int r;

	if (node->kind != NODE_LIST) {
		r = check_text(w, &path, node);
		if (r < 0)
			return r;
		fault = conf_split_path(node->text, words);
	} else {
		r = read_words(w, f, node, v);
		if (r < 0)
			return r;
		for (i = 0; i < words->n && !fault; i++)
			fault = options_segment_fault(words->v[i], strlen(words->v[i]));
	}
	if (fault)
		return refuse(w, node->at,
		    "%s, expected segments like docs/notes, or . for the root", fault);
	return 0;
}

static int
number_of(const char *text, uint64_t *ret)
{
	uint64_t n = 0;

	if (!*text || (text[0] == '0' && text[1]))
		return -EINVAL;
	for (; *text; text++)
		if (*text < '0' || *text > '9')
			return -EINVAL;
		else if (__builtin_mul_overflow(n, 10, &n) ||
			 __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
			return -ERANGE;
	*ret = n;
	return 0;
}

static const struct form {
	int (*parse)(const char *text, uint64_t *ret);
	const char *name, *unit;
} forms[CONF_TYPE_MAX] = {
	[CONF_NUMBER] = { number_of, "a whole number", "" },
	[CONF_DURATION] = { options_parse_duration, "a duration (250ms, 10s, 5m)", " ms" },
	[CONF_SIZE] = { options_parse_size, "a size (64KiB, 1MiB)", " bytes" },
	[CONF_INSTANT] = { options_parse_time, "an instant (2027-01-01T00:00:00Z)", "" },
};

static int
read_quantity(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	const struct form *form = &forms[f->type];
	uint64_t n = 0;
	int r = -EINVAL;

	if (node->kind == NODE_TEXT && node->plain)
		r = form->parse(node->text, &n);
	/* Nothing needs no unit. */
	if (r < 0 && f->type == CONF_DURATION && node->plain && !strcmp(node->text, "0"))
		r = 0;
	if (r == -EINVAL)
		return refuse(w, node->at, "is not %s", form->name);
	if (r < 0 || (f->max && (n < f->min || n > f->max)))
		return refuse(w, node->at, "is out of range, expected %ju to %ju%s",
		    (uintmax_t)f->min, (uintmax_t)f->max, form->unit);
	*(uint64_t *)v = n;
	return 0;
}

/* A number of 64 bits; below 0 it stands for its two's complement. */
static int
read_bits(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	const char *s = node->kind == NODE_TEXT && node->plain ? node->text : "";
	bool negative = *s == '-';
	uint64_t n = 0;
	size_t digits;
	int r = -EINVAL;

	if (strncmp(s, "0x", 2) == 0) {
		digits = strspn(s + 2, "0123456789abcdefABCDEF");
		if (digits > 0 && s[2 + digits] == '\0') {
			errno = 0;
			n = strtoull(s + 2, NULL, 16);
			r = -errno;
		}
	} else {
		r = number_of(s + negative, &n);
	}
	if (r == -EINVAL)
		return refuse(w, node->at, "is not a whole number, like 21505 or 0x5401");
	if (r < 0 || (negative ? f->max < UINT64_MAX || n > 1ull << 63 : n > f->max))
		return refuse(
		    w, node->at, "is out of range, expected at most %#jx", (uintmax_t)f->max);
	*(uint64_t *)v = negative ? -n : n;
	return 0;
}

static int
read_switch(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	(void)f;
	if (node->kind != NODE_TEXT || !node->plain ||
	    (strcmp(node->text, "true") && strcmp(node->text, "false")))
		return refuse(w, node->at, "is not true or false");
	*(bool *)v = node->text[0] == 't';
	return 0;
}

/* "a, b or c" */
static void
list_names(char *out, size_t cap, const char *const *names)
{
	size_t i;

	*out = '\0';
	for (i = 0; names[i]; i++) {
		if (i)
			strlcat(out, names[i + 1] ? ", " : " or ", cap);
		strlcat(out, names[i], cap);
	}
}

static int
read_choice(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	char names[200];
	unsigned i;

	list_names(names, sizeof(names), f->names);
	if (node->kind != NODE_TEXT)
		return refuse(w, node->at, "is %s, expected %s", kind_name(node), names);
	for (i = 0; f->names[i]; i++)
		if (!strcmp(f->names[i], node->text))
			break;
	if (!f->names[i])
		return refuse(w, node->at, "\"%.80s\" is none of %s", node->text, names);
	*(unsigned *)v = i;
	return 0;
}

static int
read_schema(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	struct conf_packed *packed = v;
	struct buf b = { 0 };
	struct fault fault;
	int r;

	if (node->kind != NODE_MAP)
		return refuse(w, node->at, "is %s, expected %s", kind_name(node), f->text);
	r = conf_pack_value(node, &b, w->file, w->err);
	if (r == 0 && b.n > f->max)
		r = refuse(w, node->at, "is over %ju bytes", (uintmax_t)f->max);
	if (r == 0 && walk_value(b.p, b.n, &fault) < 0)
		r = refuse(w, node->at, "cannot be sent: %s", fault.rule);
	if (r < 0) {
		buf_finish(&b);
		return r;
	}
	*packed = (struct conf_packed){ b.p, b.n };
	return 0;
}

/* ---- sections ---------------------------------------------------------------------- */

static int read_section(
    struct walker *w, const struct conf_section *s, const struct node *node, void *p);

static int
read_inside(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	return read_section(w, f->section, node, v);
}

static int
read_several(struct walker *w, const struct conf_field *f, const struct node *node, void *v)
{
	size_t i, n = strlen(w->key);
	void *item;
	int r;

	if (node->kind != NODE_LIST)
		return refuse(w, node->at, "is %s, expected a list", kind_name(node));
	if (node->n > f->max)
		return refuse(w, node->at, "has %zu elements, expected at most %ju", node->n,
		    (uintmax_t)f->max);
	for (i = 0; i < node->n; i++) {
		item = conf_add(f->section, v);
		if (!item)
			return refuse(w, node->at, "out of memory");
		snprintf(w->key + n, sizeof(w->key) - n, "[%zu]", i);
		r = read_section(w, f->section, node->items[i], item);
		if (r < 0)
			return r;
		w->key[n] = '\0';
	}
	return 0;
}

static int (*const readers[CONF_TYPE_MAX])(
    struct walker *, const struct conf_field *, const struct node *, void *) = {
	[CONF_TEXT] = read_text,
	[CONF_PROSE] = read_text,
	[CONF_ADDRESS] = read_address,
	[CONF_FILE] = read_file,
	[CONF_WORDS] = read_words,
	[CONF_NUMBER] = read_quantity,
	[CONF_DURATION] = read_quantity,
	[CONF_SIZE] = read_quantity,
	[CONF_BITS] = read_bits,
	[CONF_SWITCH] = read_switch,
	[CONF_CHOICE] = read_choice,
	[CONF_INSTANT] = read_quantity,
	[CONF_SEGMENTS] = read_segments,
	[CONF_SCHEMA] = read_schema,
	[CONF_INSIDE] = read_inside,
	[CONF_SEVERAL] = read_several,
};

static int
unknown_key(struct walker *w, const struct conf_section *s, const struct node *key)
{
	const struct conf_field *f;
	char names[300] = "";

	for (f = s->fields; f->key; f++) {
		strlcat(names, *names ? ", " : "", sizeof(names));
		strlcat(names, f->key, sizeof(names));
	}
	push_key(w, key->text);
	return refuse(w, key->at, "unknown key, expected one of %s", names);
}

static int
read_field(struct walker *w, const struct conf_section *s, const struct node *key,
    const struct node *value, char *p)
{
	size_t n = strlen(w->key);
	const struct conf_field *f;
	int r;

	for (f = s->fields; f->key; f++)
		if (!strcmp(f->key, key->text))
			break;
	if (!f->key)
		return unknown_key(w, s, key);
	push_key(w, f->key);
	r = readers[f->type](w, f, value, p + f->value);
	if (r < 0)
		return r;
	*(bool *)(p + f->has) = true;
	*(struct node_at *)(void *)(p + f->at) = value->at;
	w->key[n] = '\0';
	return 0;
}

/* Every section begins with its place. */
static int
read_section(struct walker *w, const struct conf_section *s, const struct node *node, void *p)
{
	const struct conf_field *f;
	size_t i;
	int r;

	if (node->kind != NODE_MAP)
		return refuse(w, node->at, "is %s, expected a mapping", kind_name(node));
	*(struct node_at *)p = node->at;
	for (i = 0; i < node->n; i++) {
		r = read_field(w, s, node->items[2 * i], node->items[2 * i + 1], p);
		if (r < 0)
			return r;
	}
	for (f = s->fields; f->key; f++)
		if (f->required && !*(bool *)((char *)p + f->has))
			return refuse(w, node->at, "%s is missing", f->key);
	return 0;
}

/* ---- the whole --------------------------------------------------------------------- */

int
conf_read(const char *path, const void *p, size_t n, struct conf_namespace *ret,
    char err[CONF_ERROR_MAX])
{
	struct walker w = { .file = path, .err = err };
	struct node_error fault;
	struct node *root;
	int r;

	if (conf_init(ret) < 0)
		return refuse(&w, (struct node_at){ 0 }, "out of memory");
	root = node_read(p, n, &fault);
	if (!root)
		return refuse(&w, fault.at, "%s", fault.text);
	r = read_section(&w, &conf_root, root, ret);
	node_destroy(root);
	if (r == 0 && !ret->has_version)
		r = refuse(&w, ret->at, "version is missing, expected version: 1");
	return r < 0 ? r : conf_complete(ret, path, err);
}

int
conf_open(const char *path, struct conf_namespace *ret, char err[CONF_ERROR_MAX])
{
	struct node_at nowhere = { 0, 0 };
	cleanup_free char *bytes = malloc(NODE_BYTES_MAX + 1);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	size_t n = 0;
	ssize_t got;

	memset(ret, 0, sizeof(*ret));
	if (fd < 0 || fstat(fd, &st) < 0)
		return conf_refuse(err, path, nowhere, "cannot open: %s%s", strerror(errno),
		    errno == ENOENT ? "; caisson.yaml(5) shows what one looks like" : "");
	if (!S_ISREG(st.st_mode))
		return conf_refuse(err, path, nowhere, "is no regular file");
	if (!bytes)
		return conf_refuse(err, path, nowhere, "out of memory");
	while (n <= NODE_BYTES_MAX) {
		got = read(fd, bytes + n, NODE_BYTES_MAX + 1 - n);
		if (got < 0)
			return conf_refuse(
			    err, path, nowhere, "cannot read: %s", strerror(errno));
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return conf_read(path, bytes, n, ret, err);
}
