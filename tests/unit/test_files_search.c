/* files.search: order, patterns, cursors, bounds; and races of every tool with links. */
#include "tests/unit/files_fixture.h"

#include <pthread.h>
#include <sys/syscall.h>

static void
make_tree(void)
{
	static const char *const dirs[] = { "a", "a/b", "a/b/c", "a-b", "z", "z/empty" };
	static const char *const files[] = { "a/1.c", "a/b/2.c", "a/b/c/3.c", "a/b.c", "a-b/4.c",
		"b.c", "z/5.h" };
	size_t i;

	for (i = 0; i < countof(dirs); i++)
		ck_assert_int_eq(mkdir(dirs[i], 0777), 0);
	for (i = 0; i < countof(files); i++)
		put(files[i], "");
	ck_assert_int_eq(symlink("..", "a/loop"), 0);
	ck_assert_int_eq(symlink("/etc", "z/etc"), 0);
}

/* Every page of a search, joined; returns how many calls it took. */
static size_t
search_all(const char *path, const char *pattern, unsigned limit, char *out, size_t cap)
{
	char *cursor = strdup("");
	size_t calls = 0;

	out[0] = '\0';
	do {
		ck_assert_served("files.search", "{'path':'%s','name':'%s','limit':%u%s}", path,
		    pattern, limit, cursor);
		entries("path", out, cap);
		free(cursor);
		cursor = next_cursor();
		ck_assert_uint_lt(++calls, 10000);
	} while (*cursor != '\0');
	free(cursor);
	return calls;
}

static const struct {
	const char *path, *pattern, *found;
} searches[] = {
	{ "", "*.c", "a/1.c a/b/2.c a/b/c/3.c a/b.c a-b/4.c b.c " },
	{ "", "*", "a a/1.c a/b a/b/2.c a/b/c a/b/c/3.c a/b.c a/loop a-b a-b/4.c b.c z z/5.h "
	    "z/empty z/etc " },
	{ "a", "*.c", "a/1.c a/b/2.c a/b/c/3.c a/b.c " },
	{ "a/b", "?.c", "a/b/2.c a/b/c/3.c " },
	{ "", "[bc]", "a/b a/b/c " },
	{ "", "none", "" },
	{ "", "passwd", "" }, /* a link is named and not entered */
	{ "z/empty", "*", "" },
};

START_TEST(a_search_finds_what_its_row_says_in_pages_of_any_size)
{
	char out[1024];
	unsigned limit;

	make_tree();
	for (limit = 1; limit < 20; limit += limit < 4 ? 1 : 5) {
		search_all(searches[_i].path, searches[_i].pattern, limit, out, sizeof(out));
		ck_assert_str_eq(out, searches[_i].found);
	}
}
END_TEST

START_TEST(a_search_goes_on_where_its_entry_was_though_it_is_gone)
{
	char out[1024] = "", *cursor;

	make_tree();
	ck_assert_served("files.search", "{'name':'*.c','limit':3}");
	entries("path", out, sizeof(out));
	ck_assert_str_eq(out, "a/1.c a/b/2.c a/b/c/3.c ");
	cursor = next_cursor();
	ck_assert_int_eq(unlink("a/b/c/3.c") | rmdir("a/b/c") | unlink("a/b/2.c") | rmdir("a/b"), 0);
	ck_assert_int_eq(symlink("/etc", "a/b"), 0);
	ck_assert_served("files.search", "{'name':'*.c'%s}", cursor);
	entries("path", out, sizeof(out));
	ck_assert_str_eq(out, "a/1.c a/b/2.c a/b/c/3.c a/b.c a-b/4.c b.c ");
	free(cursor);
}
END_TEST

/* The directory whose batch is used up has more names than one batch. */
START_TEST(directories_larger_than_a_batch_are_walked_whole_and_once)
{
	enum { NAMES = 5000 };
	static char out[NAMES * 32];
	char name[32];
	size_t n = 0;
	const char *p;
	int i;

	ck_assert_int_eq(mkdir("d", 0777), 0);
	for (i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "d/%05d", i);
		ck_assert_int_eq(mkdir(name, 0777), 0);
		if (i % 100 != 0)
			continue;
		strlcat(name, "/x", sizeof(name));
		put(name, "");
	}
	search_all("", "x", 7, out, sizeof(out));
	for (p = out; *p != '\0'; p = strchr(p, ' ') + 1, n++) {
		snprintf(name, sizeof(name), "d/%05zu/x ", n * 100);
		ck_assert(strncmp(p, name, strlen(name)) == 0);
	}
	ck_assert_uint_eq(n, NAMES / 100);
}
END_TEST

/* A call does its share and says so; it never does the whole of a large tree. */
START_TEST(a_call_does_bounded_work_and_the_next_goes_on)
{
	enum { DIRS = 2, NAMES = 20000 };
	char name[32], out[256];
	size_t calls;
	int i, k;

	put("9", "");
	for (k = 0; k < DIRS; k++) {
		snprintf(name, sizeof(name), "%d", k);
		ck_assert_int_eq(mkdir(name, 0777), 0);
		for (i = 0; i < NAMES; i++) {
			snprintf(name, sizeof(name), "%d/%d", k, i);
			ck_assert_int_eq(link("9", name), 0); /* cheaper than a file each */
		}
	}
	calls = search_all("", "9", 10, out, sizeof(out));
	ck_assert_str_eq(out, "0/9 1/9 9 ");
	ck_assert_uint_gt(calls, 1);
	ck_assert_uint_lt(calls, 20);
}
END_TEST

START_TEST(a_tree_deeper_than_a_path_is_counted_not_followed)
{
	char path[256] = "";

	close(make_deep(70, 1, path, sizeof(path)));
	ck_assert_served("files.search", "{'name':'*'}");
	ck_assert_uint_eq(member("entries").count, PATH_SEGMENTS_MAX);
	ck_assert_uint_eq(number("unsearched"), 1);
	ck_assert(is_true("complete"));
}
END_TEST

/* ---- races ---------------------------------------------------------------------------- */

static volatile bool stop;

/* Swaps `d` (a directory of the root) with `link` (a link to outside), as fast as it can,
 * and `f` (a file) with `flink`. */
static void *
swap_for_ever(void *arg)
{
	(void)arg;
	while (!stop) {
		renameat2(AT_FDCWD, "d", AT_FDCWD, "link", RENAME_EXCHANGE);
		renameat2(AT_FDCWD, "f", AT_FDCWD, "flink", RENAME_EXCHANGE);
	}
	return NULL;
}

static void
expect_one_of(enum files_code got, enum files_code other)
{
	if (got != FILES_OK && got != other)
		ck_assert_code(got, FILES_symlink);
}

START_TEST(no_swap_of_a_directory_with_a_link_leads_outside)
{
	pthread_t thread;
	enum files_code code;
	int i, served = 0, refused = 0;

	root.named_temps = _i;
	put("../outside/x", "secret");
	put("../outside/only-outside", "");
	ck_assert_int_eq(mkdir("d", 0777), 0);
	put("d/x", "inside");
	put("f", "inside");
	ck_assert_int_eq(symlink("../outside", "link"), 0);
	ck_assert_int_eq(symlink("../outside/x", "flink"), 0);
	stop = false;
	ck_assert_int_eq(pthread_create(&thread, NULL, swap_for_ever, NULL), 0);
	for (i = 0; i < 1000; i++) {
		code = serve("files.read", "{'path':'d/x'}");
		expect_one_of(code, FILES_OK);
		if (code == FILES_OK)
			ck_assert(text_is("text", "inside"));
		served += code == FILES_OK;
		refused += code == FILES_symlink;
		code = serve("files.read", "{'path':'f'}");
		expect_one_of(code, FILES_OK);
		if (code == FILES_OK)
			ck_assert(text_is("text", "inside"));
		code = serve("files.list", "{'path':'d'}");
		expect_one_of(code, FILES_OK);
		if (code == FILES_OK) /* x, and made while it stands */
			ck_assert_uint_le(member("entries").count, 2);
		ck_assert_served("files.search", "{'name':'only-outside'}");
		ck_assert_uint_eq(member("entries").count, 0);
		if (i % 5 != 0)
			continue;
		ck_assert_served("files.grep", "{'text':'secret'}");
		ck_assert_uint_eq(member("entries").count, 0);
		code = serve("files.grep", "{'path':'d/x','text':'secret'}");
		expect_one_of(code, FILES_OK);
		if (code == FILES_OK)
			ck_assert_uint_eq(member("entries").count, 0);
		expect_one_of(serve("files.delete", "{'path':'d/only-outside'}"), FILES_not_found);
		code = serve("files.rename", "{'path':'d','from':'only-outside','to':'moved'}");
		expect_one_of(code, FILES_not_found);
		code = serve("files.mkdir", "{'path':'d/made'}");
		expect_one_of(code, FILES_exists);
		expect_one_of(serve("files.delete", "{'path':'d/made'}"), FILES_not_found);
		expect_one_of(serve("files.write", "{'path':'d/x','text':'inside'}"), FILES_OK);
		expect_one_of(serve("files.write", "{'path':'f','text':'inside'}"), FILES_OK);
	}
	stop = true;
	pthread_join(thread, NULL);
	ck_assert(holds("../outside/x", "secret"));
	ck_assert_uint_eq(count_names("../outside"), 2);
	ck_assert_int_gt(served, 0);
	ck_assert_int_gt(refused, 0);
}
END_TEST

/* Two providers that both expect the same old content: one of them is refused. */
struct writer {
	struct files_root root;
	char text[16];
	int done;
};

static enum files_code
write_expecting(struct writer *w, const char *expect, char sha256[65])
{
	struct buf args = { 0 }, path = { 0 };
	struct files_reply reply = { .field = NULL };
	enum files_code code;
	struct value v;

	pack_map(&args, 3);
	pack_str(&args, "path");
	pack_str(&args, "n");
	pack_str(&args, "text");
	pack_str(&args, w->text);
	pack_str(&args, "expect");
	pack_str(&args, expect);
	pack_array(&path, 1);
	pack_str(&path, "n");
	code = files_serve(&w->root, slice_of("files.write"), (struct slice){ args.p, args.n },
	    (struct slice){ path.p, path.n }, &reply);
	if (code == FILES_OK) {
		value_get((struct slice){ reply.out.p, reply.out.n }, "sha256", &v);
		memcpy(sha256, v.bytes.p, 64);
		sha256[64] = '\0';
	}
	buf_finish(&args);
	buf_finish(&path);
	buf_finish(&reply.out);
	return code;
}

/* sha256("0") and sha256("1"), so that a counter modulo 2 needs no hash of its own. */
static const char *const digest_of[] = {
	"5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9",
	"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
};

static void *
flip(void *arg)
{
	struct writer *w = arg;
	char sha256[65];
	int i;

	for (i = 0; i < 200; i++) {
		strlcpy(w->text, i % 2 == 0 ? "1" : "0", sizeof(w->text));
		w->done += write_expecting(w, digest_of[i % 2], sha256) == FILES_OK;
	}
	return NULL;
}

START_TEST(of_two_writers_that_expect_the_same_one_is_refused)
{
	struct writer w[2] = { { .done = 0 }, { .done = 0 } };
	pthread_t thread[2];
	int i, flips;

	put("n", "0");
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(files_root_open(".", &w[i].root), 0);
	for (i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, flip, &w[i]);
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	/* Every success flipped the content once: none was lost or doubled. */
	flips = w[0].done + w[1].done;
	ck_assert_int_gt(flips, 0);
	ck_assert(holds("n", flips % 2 == 0 ? "0" : "1"));
	ck_assert_uint_eq(count_names("."), 1);
	for (i = 0; i < 2; i++)
		files_root_close(&w[i].root);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("files_search");
	TCase *search = tcase_create("search"), *races = tcase_create("races");

	tcase_add_checked_fixture(search, fixture_setup, fixture_teardown);
	tcase_set_timeout(search, 60);
	tcase_add_loop_test(
	    search, a_search_finds_what_its_row_says_in_pages_of_any_size, 0, countof(searches));
	tcase_add_test(search, a_search_goes_on_where_its_entry_was_though_it_is_gone);
	tcase_add_test(search, directories_larger_than_a_batch_are_walked_whole_and_once);
	tcase_add_test(search, a_call_does_bounded_work_and_the_next_goes_on);
	tcase_add_test(search, a_tree_deeper_than_a_path_is_counted_not_followed);
	suite_add_tcase(s, search);
	tcase_add_checked_fixture(races, fixture_setup, fixture_teardown);
	tcase_set_timeout(races, 120);
	tcase_add_loop_test(races, no_swap_of_a_directory_with_a_link_leads_outside, 0, 2);
	tcase_add_test(races, of_two_writers_that_expect_the_same_one_is_refused);
	suite_add_tcase(s, races);
	return run_suite(s);
}
