/*
 * What the tests of the files provider share: a root in a directory of its own, calls
 * written as JSON, and their results.
 */
#ifndef TESTS_UNIT_FILES_FIXTURE_H
#define TESTS_UNIT_FILES_FIXTURE_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "common/util.h"
#include "common/walk.h"
#include "worker/files/files.h"

static char top[64]; /* holds root/ and outside/ */
static struct files_root root;
static struct files_reply result; /* of the last call */

/* By descriptors: some of these trees have paths that are longer than the kernel's. */
static inline void
remove_tree(int dir, const char *name)
{
	DIR *d;
	struct dirent *e;
	int fd;

	if (unlinkat(dir, name, 0) == 0)
		return;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			remove_tree(fd, e->d_name);
	closedir(d);
	unlinkat(dir, name, AT_REMOVEDIR);
}

/* Changes into the root, so that tests name files as calls do. */
static inline void
fixture_setup(void)
{
	snprintf(top, sizeof(top), "/tmp/caisson-files-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	ck_assert_int_eq(chdir(top), 0);
	ck_assert_int_eq(mkdir("outside", 0777), 0);
	ck_assert_int_eq(mkdir("root", 0777), 0);
	ck_assert_int_eq(chdir("root"), 0);
	ck_assert_int_eq(files_root_open(".", &root), 0);
}

static inline void
fixture_teardown(void)
{
	buf_finish(&result.out);
	files_root_close(&root);
	ck_assert_int_eq(chdir("/"), 0);
	remove_tree(AT_FDCWD, top);
}

static inline void
put(const char *path, const char *content)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(content, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

static inline bool
holds(const char *path, const char *content)
{
	char text[4096];
	cleanup_fd int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	return n == (ssize_t)strlen(content) && memcmp(text, content, (size_t)n) == 0;
}

/* One of everything that is neither a file nor a directory, and links to everywhere. */
static inline void
make_traps(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX, .sun_path = "socket" };
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	put("../outside/secret", "secret");
	put("file", "hello");
	ck_assert_int_eq(mkdir("dir", 0777), 0);
	put("dir/inner", "inner");
	ck_assert_int_eq(symlink("file", "leaf"), 0);
	ck_assert_int_eq(symlink("dir", "parent"), 0);
	ck_assert_int_eq(symlink("nothing", "dangling"), 0);
	ck_assert_int_eq(symlink("/etc/passwd", "absolute"), 0);
	ck_assert_int_eq(symlink("../outside", "up"), 0);
	ck_assert_int_eq(symlink("../../etc", "dir/up"), 0);
	ck_assert_int_eq(symlink("/proc/self/root", "magic"), 0);
	ck_assert_int_eq(symlink("loop", "loop"), 0);
	ck_assert_int_eq(mkfifo("fifo", 0666), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
}

/* `n` directories, each in the one before, with names of `length` bytes.  Adds their path
 * and a slash to `path`; returns the last. */
static inline int
make_deep(int n, size_t length, char *path, size_t cap)
{
	int i, fd = open(".", O_RDONLY | O_DIRECTORY), next;
	char name[256];

	memset(name, 'd', length);
	name[length] = '\0';
	for (i = 0; i < n; i++, fd = next) {
		ck_assert_int_eq(mkdirat(fd, name, 0777), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY);
		close(fd);
		strlcat(path, name, cap);
		strlcat(path, "/", cap);
	}
	return fd;
}

static inline void
pack_json(struct buf *b, const json_t *j)
{
	const char *key;
	json_t *v;
	size_t i;

	switch (json_typeof(j)) {
	case JSON_OBJECT:
		pack_map(b, (uint32_t)json_object_size(j));
		json_object_foreach ((json_t *)(uintptr_t)j, key, v) {
			pack_str(b, key);
			pack_json(b, v);
		}
		break;
	case JSON_ARRAY:
		pack_array(b, (uint32_t)json_array_size(j));
		json_array_foreach (j, i, v)
			pack_json(b, v);
		break;
	case JSON_STRING:
		pack_str_n(b, json_string_value(j), json_string_length(j));
		break;
	case JSON_INTEGER:
		pack_int(b, json_integer_value(j));
		break;
	case JSON_REAL:
		pack_real(b, json_real_value(j));
		break;
	case JSON_NULL:
		pack_nil(b);
		break;
	default:
		pack_bool(b, json_is_true(j));
	}
}

/* The list of names that a broker would have decided for `text`: no checks. */
static inline void
pack_decided(struct buf *b, const char *text, size_t n)
{
	const char *end = text + n, *slash;
	struct buf names = { 0 };
	uint32_t count = 0;

	if (n > 0 && end[-1] == '/')
		end--;
	for (; text < end && !(end - text == 1 && *text == '.' && count == 0); count++) {
		slash = memchr(text, '/', (size_t)(end - text));
		pack_str_n(&names, text, (size_t)((slash ? slash : end) - text));
		text = slash ? slash + 1 : end;
	}
	pack_array(b, count);
	buf_add(b, names.p, names.n);
	buf_finish(&names);
}

/* One call on the decided path `decided` (NULL: what its argument says). */
static inline enum files_code
serve_on(const char *decided, const char *tool, const json_t *arguments)
{
	struct buf args = { 0 }, path = { 0 };
	const json_t *j = json_object_get(arguments, "path");
	enum files_code code;

	pack_json(&args, arguments);
	if (decided != NULL)
		pack_decided(&path, decided, strlen(decided));
	else
		pack_decided(&path, j ? json_string_value(j) : "", j ? json_string_length(j) : 0);
	buf_finish(&result.out);
	memset(&result, 0, sizeof(result));
	code = files_serve(&root, slice_of(tool), (struct slice){ args.p, args.n },
	    (struct slice){ path.p, path.n }, &result);
	if (code == FILES_OK) {
		struct fault fault;

		/* Whatever leaves is canonical and fits its frame. */
		ck_assert_int_eq(walk_value(result.out.p, result.out.n, &fault), 0);
		ck_assert_uint_le(result.out.n, RESULT_MAX);
	}
	buf_finish(&args);
	buf_finish(&path);
	return code;
}

/* One call; its arguments are JSON in which ' stands for ". */
__attribute__((format(printf, 2, 3))) static inline enum files_code
serve(const char *tool, const char *format, ...)
{
	char *text, *p;
	enum files_code code;
	json_error_t error;
	json_t *j;
	va_list ap;

	va_start(ap, format);
	ck_assert_int_ge(vasprintf(&text, format, ap), 0);
	va_end(ap);
	for (p = text; *p != '\0'; p++)
		if (*p == '\'')
			*p = '"';
	j = json_loads(text, JSON_ALLOW_NUL, &error);
	ck_assert_msg(j != NULL, "%s in %s", error.text, text);
	code = serve_on(NULL, tool, j);
	json_decref(j);
	free(text);
	return code;
}

#define ck_assert_code(got, want) \
	ck_assert_str_eq(files_code_name(got), files_code_name(want))
#define ck_assert_served(...) ck_assert_code(serve(__VA_ARGS__), FILES_OK)

static inline struct value
member(const char *key)
{
	struct value v;

	ck_assert_msg(value_get((struct slice){ result.out.p, result.out.n }, key, &v),
	    "no %s in the reply", key);
	return v;
}

static inline bool
has_member(const char *key)
{
	struct value v;

	return value_get((struct slice){ result.out.p, result.out.n }, key, &v);
}

static inline uint64_t
number(const char *key)
{
	struct value v = member(key);

	ck_assert_int_eq(v.type, VALUE_UINT);
	return v.uint;
}

static inline bool
is_true(const char *key)
{
	struct value v = member(key);

	ck_assert_int_eq(v.type, VALUE_BOOL);
	return v.boolean;
}

static inline bool
text_is(const char *key, const char *want)
{
	struct value v = member(key);

	return v.type == VALUE_STR && slice_is(v.bytes, want);
}

/* Adds `key` of every entry and a space to `out`; returns how many there were. */
static inline size_t
entries(const char *key, char *out, size_t cap)
{
	struct value list = member("entries"), v;
	struct slice s = list.raw;
	size_t i, used = strlen(out);

	value_next(&s);
	for (i = 0; i < list.count; i++) {
		ck_assert(value_get(value_skip(&s).raw, key, &v));
		used += (size_t)snprintf(out + used, cap - used, "%.*s ", (int)v.bytes.n,
		    (const char *)v.bytes.p);
		ck_assert_uint_lt(used, cap);
	}
	return list.count;
}

/* The reply's cursor as JSON for the next call; "" at the end.  The caller frees it. */
static inline char *
next_cursor(void)
{
	struct value v;
	char *text;

	ck_assert(is_true("complete") == !has_member("cursor"));
	if (is_true("complete"))
		return strdup("");
	v = member("cursor");
	ck_assert_int_ge(asprintf(&text, ",'cursor':'%.*s'", (int)v.bytes.n,
	    (const char *)v.bytes.p), 0);
	return text;
}

/* Names that stand in the directory, leftovers of ours among them. */
static inline size_t
count_names(const char *path)
{
	struct dirent *d;
	DIR *dir = opendir(path);
	size_t n = 0;

	ck_assert_ptr_nonnull(dir);
	while ((d = readdir(dir)) != NULL)
		n += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
	closedir(dir);
	return n;
}

static inline bool
tell(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A small file system of our own over the root; false where there is none for us. */
static inline bool
mount_small(const char *options)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	    tell("/proc/self/uid_map", uids) && tell("/proc/self/setgroups", "deny") &&
	    tell("/proc/self/gid_map", gids) &&
	    mount("tmpfs", ".", "tmpfs", 0, options) == 0) {
		ck_assert_int_eq(chdir("../root"), 0);
		files_root_close(&root);
		ck_assert_int_eq(files_root_open(".", &root), 0);
		return true;
	}
	return false;
}

static inline void
umount_small(void)
{
	files_root_close(&root);
	ck_assert_int_eq(chdir(".."), 0);
	ck_assert_int_eq(umount2("root", MNT_DETACH), 0);
}

/* Peak memory of this process, in KiB.  Check runs each test in a process of its own. */
static inline long
peak_kib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

/* What a sanitizer keeps of freed memory would count too. */
static inline void
assert_flat(long before_kib, long allowed_kib)
{
#ifndef CAISSON_ASAN
	ck_assert_int_le(peak_kib() - before_kib, allowed_kib);
#endif
	(void)before_kib;
	(void)allowed_kib;
}

static inline int
run_suite(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}

#endif /* TESTS_UNIT_FILES_FIXTURE_H */
