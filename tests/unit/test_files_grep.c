/* files.grep: what is found and where, pages, binary files, bounds. */
#include "tests/unit/files_fixture.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "common/base64.h"

/* Adds "path:line:offset " of every entry to `out`; returns how many there were. */
static size_t
found(char *out, size_t cap)
{
	struct value list = member("entries"), path, line, offset;
	struct slice s = list.raw;
	size_t i, used = strlen(out);
	struct value v;

	value_next(&s);
	for (i = 0; i < list.count; i++) {
		v = value_skip(&s);
		ck_assert(value_get(v.raw, "path", &path) && value_get(v.raw, "line", &line) &&
		    value_get(v.raw, "offset", &offset));
		used += (size_t)snprintf(out + used, cap - used, "%.*s:%llu:%llu ",
		    (int)path.bytes.n, (const char *)path.bytes.p, (unsigned long long)line.uint,
		    (unsigned long long)offset.uint);
		ck_assert_uint_lt(used, cap);
	}
	return list.count;
}

/* Every page of a search, joined; returns how many calls it took. */
static size_t
grep_all(const char *arguments, unsigned limit, char *out, size_t cap)
{
	char *cursor = strdup("");
	size_t calls = 0;

	out[0] = '\0';
	do {
		ck_assert_served("files.grep", "{%s,'limit':%u%s}", arguments, limit, cursor);
		found(out, cap);
		free(cursor);
		cursor = next_cursor();
		ck_assert_uint_lt(++calls, 10000);
	} while (*cursor != '\0');
	free(cursor);
	return calls;
}

/* The first entry's member. */
static struct value
first(const char *key)
{
	struct value list = member("entries"), v;
	struct slice s = list.raw;

	ck_assert_uint_gt(list.count, 0);
	value_next(&s);
	ck_assert_msg(value_get(value_skip(&s).raw, key, &v), "no %s in the entry", key);
	return v;
}

static void
make_tree(void)
{
	ck_assert_int_eq(mkdir("a", 0777) | mkdir("a/b", 0777) | mkdir("z", 0777), 0);
	put("a/1.c", "one\ntwo needle\nthree\n");
	put("a/b/2.c", "needle needleneedle\n\nneedle");
	put("a/b.h", "Needle NEEDLE\n");
	put("empty", "");
	put("z/3.c", "no such thing, need\nle\n");
	ck_assert_int_eq(symlink("../a/1.c", "z/link"), 0);
	ck_assert_int_eq(symlink("../a", "z/dir"), 0);
	ck_assert_int_eq(mkfifo("z/fifo", 0666), 0);
}

static const struct {
	const char *arguments, *found;
} rows[] = {
	{ "'text':'needle'", "a/1.c:2:8 a/b/2.c:1:0 a/b/2.c:1:7 a/b/2.c:1:13 a/b/2.c:3:21 " },
	{ "'text':'needle','path':'a/b'", "a/b/2.c:1:0 a/b/2.c:1:7 a/b/2.c:1:13 a/b/2.c:3:21 " },
	{ "'text':'needle','path':'a/1.c'", "a/1.c:2:8 " },
	{ "'text':'needle','path':'a/b/2.c'",
	    "a/b/2.c:1:0 a/b/2.c:1:7 a/b/2.c:1:13 a/b/2.c:3:21 " },
	{ "'text':'nEEdle','ignoreCase':true,'path':'a'",
	    "a/1.c:2:8 a/b/2.c:1:0 a/b/2.c:1:7 a/b/2.c:1:13 a/b/2.c:3:21 a/b.h:1:0 a/b.h:1:7 " },
	{ "'text':'needle','name':'[0-9].c'",
	    "a/1.c:2:8 a/b/2.c:1:0 a/b/2.c:1:7 a/b/2.c:1:13 a/b/2.c:3:21 " },
	{ "'text':'eedle','name':'*.h'", "a/b.h:1:1 " },
	{ "'text':'need\\nle'", "z/3.c:1:15 " },
	{ "'text':'\\n'", "a/1.c:1:3 a/1.c:2:14 a/1.c:3:20 a/b/2.c:1:19 a/b/2.c:2:20 a/b.h:1:13 "
	    "z/3.c:1:19 z/3.c:2:22 " },
	{ "'text':'a*.c'", "" }, /* no pattern */
	{ "'text':'needle','path':'z'", "" }, /* a link is not followed */
};

START_TEST(a_text_is_found_at_its_line_and_byte_in_pages_of_any_size)
{
	char out[1024];
	unsigned limit;

	make_tree();
	for (limit = 1; limit < 20; limit += limit < 4 ? 1 : 5) {
		grep_all(rows[_i].arguments, limit, out, sizeof(out));
		ck_assert_str_eq(out, rows[_i].found);
	}
}
END_TEST

/* Around what is found on its line, whole characters, and where it begins. */
static const struct {
	unsigned before, after; /* letters on the same line */
	const char *letter;
	unsigned text_before, text_after;
	bool whole;
} excerpts[] = {
	{ 0, 0, "x", 0, 0, true },
	{ 100, 100, "x", 100, 100, true },
	{ 128, 128, "x", 128, 128, false }, /* what lies behind was not looked at */
	{ 1000, 0, "x", 128, 0, false },
	{ 0, 1000, "x", 0, 128, false },
	{ 1000, 1000, "x", 128, 128, false },
	{ 300, 300, "\xc3\xa9", 64, 64, false },
	{ 300, 300, "\xe6\xbc\xa2", 42, 42, false },
};

START_TEST(an_entry_has_what_surrounds_it_on_its_line)
{
	char text[8192] = "line\n", want[4096] = "";
	unsigned i, n = (unsigned)strlen(excerpts[_i].letter);

	for (i = 0; i < excerpts[_i].before; i++)
		strlcat(text, excerpts[_i].letter, sizeof(text));
	strlcat(text, "needle", sizeof(text));
	for (i = 0; i < excerpts[_i].after; i++)
		strlcat(text, excerpts[_i].letter, sizeof(text));
	strlcat(text, "\nline\n", sizeof(text));
	put("f", text);
	for (i = 0; i < excerpts[_i].text_before; i++)
		strlcat(want, excerpts[_i].letter, sizeof(want));
	strlcat(want, "needle", sizeof(want));
	for (i = 0; i < excerpts[_i].text_after; i++)
		strlcat(want, excerpts[_i].letter, sizeof(want));
	ck_assert_served("files.grep", "{'text':'needle'}");
	ck_assert_uint_eq(first("text").bytes.n, strlen(want));
	ck_assert(slice_is(first("text").bytes, want));
	ck_assert(first("whole").boolean == excerpts[_i].whole);
	ck_assert_uint_eq(first("textOffset").uint, first("offset").uint - n * excerpts[_i].text_before);
	ck_assert_uint_eq(first("line").uint, 2);
}
END_TEST

START_TEST(a_line_that_is_no_text_comes_as_base64)
{
	uint8_t bytes[64];
	size_t n;

	put("f", "caf\xe9 needle");
	ck_assert_served("files.grep", "{'text':'needle'}");
	ck_assert_int_eq(base64_decode(first("base64").bytes.p, first("base64").bytes.n, bytes, &n), 0);
	ck_assert(n == 11 && memcmp(bytes, "caf\xe9 needle", 11) == 0);
	ck_assert(first("whole").boolean);
}
END_TEST

START_TEST(binary_files_are_skipped_and_counted)
{
	cleanup_fd int fd = open("binary", O_WRONLY | O_CREAT, 0666);

	ck_assert_int_eq(write(fd, "needle\0needle", 13), 13);
	put("text", "needle");
	ck_assert_served("files.grep", "{'text':'needle'}");
	ck_assert_uint_eq(member("entries").count, 1);
	ck_assert_uint_eq(number("binary"), 1);
	ck_assert_served("files.grep", "{'text':'needle','path':'binary'}");
	ck_assert_uint_eq(member("entries").count, 0);
	ck_assert_uint_eq(number("binary"), 1);
	ck_assert(is_true("complete"));
}
END_TEST

START_TEST(what_is_closed_to_us_is_counted)
{
	if (geteuid() == 0)
		return; /* to whom nothing is closed */
	put("closed", "needle");
	put("open", "needle");
	ck_assert_int_eq(chmod("closed", 0) | mkdir("d", 0), 0);
	ck_assert_served("files.grep", "{'text':'needle'}");
	ck_assert_uint_eq(member("entries").count, 1);
	ck_assert_uint_eq(number("unsearched"), 2);
	ck_assert_code(serve("files.grep", "{'text':'needle','path':'closed'}"), FILES_permission);
}
END_TEST

/* A cursor in the middle of a file is good for what is left, whatever became of the file. */
START_TEST(a_search_goes_on_though_its_file_is_gone_or_another)
{
	char out[256] = "", *cursor;

	make_tree();
	ck_assert_served("files.grep", "{'text':'needle','limit':2}");
	cursor = next_cursor();
	ck_assert_int_eq(unlink("a/b/2.c"), 0);
	ck_assert_served("files.grep", "{'text':'needle','ignoreCase':true%s}", cursor);
	found(out, sizeof(out));
	ck_assert_str_eq(out, "a/b.h:1:0 a/b.h:1:7 ");
	ck_assert_int_eq(symlink("/etc/passwd", "a/b/2.c"), 0);
	ck_assert_served("files.grep", "{'text':'needle'%s}", cursor);
	ck_assert_uint_eq(member("entries").count, 0);
	ck_assert_int_eq(unlink("a/b/2.c"), 0);
	put("a/b/2.c", "0123456needle needle");
	out[0] = '\0';
	ck_assert_served("files.grep", "{'text':'needle'%s}", cursor);
	found(out, sizeof(out));
	ck_assert_str_eq(out, "a/b/2.c:1:7 a/b/2.c:1:14 ");
	free(cursor);
}
END_TEST

START_TEST(a_cursor_that_is_none_is_refused)
{
	static const struct {
		char kind;
		uint64_t offset;
		const char *names;
		enum files_code code;
	} forged[] = {
		{ 'g', 0, "a", FILES_OK },
		{ 'g', 1ull << 52, "f", FILES_OK },
		{ 'g', 1ull << 53, "f", FILES_invalid_cursor },
		{ 'g', UINT64_MAX, "f", FILES_invalid_cursor },
		{ 's', 0, "a", FILES_invalid_cursor },
		{ 'g', 1, "../outside/secret", FILES_invalid_cursor },
		{ 'g', 1, "/etc/passwd", FILES_invalid_cursor },
		{ 'g', 1, "up/secret", FILES_OK },
		{ 'g', 1, "fifo", FILES_OK },
		{ 'g', 1, "socket", FILES_OK },
		{ 'g', 1, "a/", FILES_invalid_cursor },
	};
	struct sockaddr_un sun = { .sun_family = AF_UNIX, .sun_path = "socket" };
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t place[2] = { 0, 1 };
	uint8_t bytes[64];
	char text[128] = "";
	size_t i, n;

	put("../outside/secret", "the secret");
	put("f", "");
	ck_assert_int_eq(symlink("../outside", "up") | mkfifo("fifo", 0666), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	for (i = 0; i < countof(forged); i++) {
		n = strlen(forged[i].names);
		bytes[0] = (uint8_t)forged[i].kind;
		place[0] = forged[i].offset;
		memcpy(bytes + 1, place, sizeof(place));
		memcpy(bytes + 17, forged[i].names, n);
		base64_encode(bytes, 17 + n, text);
		text[base64_size(17 + n)] = '\0';
		ck_assert_code(
		    serve("files.grep", "{'text':'secret','cursor':'%s'}", text), forged[i].code);
		if (forged[i].code == FILES_OK)
			ck_assert_uint_eq(member("entries").count, 0);
		else
			ck_assert_str_eq(result.field, "cursor");
	}
	ck_assert_code(serve("files.grep", "{'text':'x','cursor':'Zw=='}"), FILES_invalid_cursor);
}
END_TEST

START_TEST(three_gibibytes_are_searched_a_share_at_a_time_in_flat_memory)
{
	const uint64_t size = 3ull << 30;
	bool small = mount_small("mode=777"); /* where holes cost no memory to read */
	int fd = open("f", O_WRONLY | O_CREAT, 0666);
	char line[9000], out[128];
	long before = peak_kib();

	memset(line, 'x', sizeof(line));
	line[4000] = '\n';
	ck_assert_int_eq(write(fd, line, sizeof(line)), sizeof(line));
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	/* Across what two blocks and two calls read. */
	ck_assert_int_eq(pwrite(fd, "\nneedle\n", 8, (256 << 20) - 3), 8);
	ck_assert_int_eq(pwrite(fd, "needle", 6, (off_t)size - 6), 6);
	ck_assert_uint_ge(grep_all("'text':'needle'", 1000, out, sizeof(out)), 12);
	ck_assert_str_eq(out, "f:3:268435454 f:4:3221225466 ");
	assert_flat(before, 8 << 10);
	close(fd);
	if (small)
		umount_small();
}
END_TEST

START_TEST(many_names_are_searched_whole_and_once_in_flat_memory)
{
	enum { NAMES = 200000 };
	char name[32], out[256];
	bool small = mount_small("mode=777"); /* where names cost less to make */
	long before;
	size_t calls;
	int i;

	ck_assert_int_eq(mkdir("d", 0777) | mkdir("e", 0777), 0);
	for (i = 0; i < NAMES; i++) {
		/* A directory entry costs less than a file, and one that is searched more. */
		snprintf(name, sizeof(name), "d/%d", i);
		ck_assert_int_eq(i % 10000 == 0 ? mknod(name, S_IFREG | 0644, 0) : symlink("x", name),
		    0);
	}
	put("d/100000", "needle");
	put("e/last", "needle");
	before = peak_kib();
	calls = grep_all("'text':'needle'", 1000, out, sizeof(out));
	ck_assert_str_eq(out, "d/100000:1:0 e/last:1:0 ");
	ck_assert_uint_gt(calls, 1);
	assert_flat(before, 8 << 10);
	if (small)
		umount_small();
}
END_TEST

/* The reply is bounded though each of its entries has a long path. */
START_TEST(a_reply_of_long_paths_is_cut_before_it_is_too_large)
{
	char path[64 * 201] = "", *cursor = strdup("");
	size_t n = 0, calls = 0;
	int i, fd = make_deep(60, 200, path, sizeof(path)), next;

	next = openat(fd, "f", O_WRONLY | O_CREAT, 0666);
	for (i = 0; i < 100; i++)
		ck_assert_int_eq(write(next, "needle\n", 7), 7);
	close(next);
	close(fd);
	do {
		ck_assert_served("files.grep", "{'text':'needle'%s}", cursor);
		n += member("entries").count;
		calls++;
		free(cursor);
		cursor = next_cursor();
	} while (*cursor != '\0');
	free(cursor);
	ck_assert_uint_eq(n, 100);
	ck_assert_uint_gt(calls, 1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("files_grep");
	TCase *c = tcase_create("grep");

	tcase_add_checked_fixture(c, fixture_setup, fixture_teardown);
	tcase_set_timeout(c, 240);
	tcase_add_loop_test(
	    c, a_text_is_found_at_its_line_and_byte_in_pages_of_any_size, 0, countof(rows));
	tcase_add_loop_test(c, an_entry_has_what_surrounds_it_on_its_line, 0, countof(excerpts));
	tcase_add_test(c, a_line_that_is_no_text_comes_as_base64);
	tcase_add_test(c, binary_files_are_skipped_and_counted);
	tcase_add_test(c, what_is_closed_to_us_is_counted);
	tcase_add_test(c, a_search_goes_on_though_its_file_is_gone_or_another);
	tcase_add_test(c, a_cursor_that_is_none_is_refused);
	tcase_add_test(c, three_gibibytes_are_searched_a_share_at_a_time_in_flat_memory);
	tcase_add_test(c, many_names_are_searched_whole_and_once_in_flat_memory);
	tcase_add_test(c, a_reply_of_long_paths_is_cut_before_it_is_too_large);
	suite_add_tcase(s, c);
	return run_suite(s);
}
