/* The tools of the files provider on real directories: read, stat, list. */
#include <sys/sysmacros.h>

#include "common/base64.h"
#include "tests/unit/files_fixture.h"

/* ---- what is not touched -------------------------------------------------------------- */

static const struct {
	const char *path;
	enum files_code read, list, write; /* grep takes what read or list do */
} traps[] = {
	{ "leaf", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "leaf/", FILES_symlink, FILES_symlink, FILES_invalid_tool_arguments },
	{ "parent", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "parent/", FILES_symlink, FILES_symlink, FILES_invalid_tool_arguments },
	{ "parent/inner", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "parent/new", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "dangling", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "dangling/x", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "absolute", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "up/secret", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "up/new", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "dir/up/passwd", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "magic/etc/passwd", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "loop", FILES_symlink, FILES_symlink, FILES_symlink },
	{ "fifo", FILES_not_regular, FILES_not_directory, FILES_not_regular },
	{ "socket", FILES_not_regular, FILES_not_directory, FILES_not_regular },
	{ "dir", FILES_is_directory, FILES_OK, FILES_is_directory },
	{ "", FILES_is_directory, FILES_OK, FILES_is_directory },
	{ ".", FILES_is_directory, FILES_OK, FILES_is_directory },
	{ "file", FILES_OK, FILES_not_directory, FILES_OK },
	{ "file/", FILES_not_directory, FILES_not_directory, FILES_invalid_tool_arguments },
	{ "file/x", FILES_not_directory, FILES_not_directory, FILES_not_directory },
	{ "missing", FILES_not_found, FILES_not_found, FILES_OK },
	{ "missing/x", FILES_not_found, FILES_not_found, FILES_not_found },
	{ "dir/../file", FILES_invalid_tool_arguments, FILES_invalid_tool_arguments,
	    FILES_invalid_tool_arguments },
	{ "dir/../../outside/secret", FILES_invalid_tool_arguments, FILES_invalid_tool_arguments,
	    FILES_invalid_tool_arguments },
	{ "/etc/passwd", FILES_invalid_tool_arguments, FILES_invalid_tool_arguments,
	    FILES_invalid_tool_arguments },
	{ "file\\u0000x", FILES_invalid_tool_arguments, FILES_invalid_tool_arguments,
	    FILES_invalid_tool_arguments },
	{ "..", FILES_invalid_tool_arguments, FILES_invalid_tool_arguments,
	    FILES_invalid_tool_arguments },
	{ ".caisson-0123456789abcdef.tmp", FILES_invalid_tool_arguments,
	    FILES_invalid_tool_arguments, FILES_invalid_tool_arguments },
};

START_TEST(nothing_but_files_and_directories_is_touched)
{
	enum files_code code;

	make_traps();
	code = serve("files.read", "{'path':'%s'}", traps[_i].path);
	ck_assert_code(code, traps[_i].read);
	code = serve("files.list", "{'path':'%s'}", traps[_i].path);
	ck_assert_code(code, traps[_i].list);
	code = serve("files.search", "{'path':'%s','name':'*'}", traps[_i].path);
	ck_assert_code(code, traps[_i].list);
	code = serve("files.stat", "{'path':'%s'}", traps[_i].path);
	ck_assert_code(code, traps[_i].read == FILES_is_directory ? FILES_OK : traps[_i].read);
	code = serve("files.grep", "{'path':'%s','text':'secret'}", traps[_i].path);
	ck_assert_code(code, traps[_i].read == FILES_is_directory ? FILES_OK : traps[_i].read);
	if (code == FILES_OK)
		ck_assert_uint_eq(member("entries").count, 0);
	code = serve("files.mkdir", "{'path':'%s'}", traps[_i].path);
	if (traps[_i].read == FILES_OK || traps[_i].read == FILES_is_directory ||
	    strcmp(traps[_i].path, "file/") == 0)
		ck_assert_code(code, FILES_exists);
	else if (strcmp(traps[_i].path, "missing") == 0)
		ck_assert_int_eq(code == FILES_OK ? rmdir("missing") : -1, 0);
	else
		ck_assert_code(code, traps[_i].read);
	code = serve("files.write", "{'path':'%s','text':'overwritten'}", traps[_i].path);
	ck_assert_code(code, traps[_i].write);

	ck_assert(holds("../outside/secret", "secret"));
	ck_assert_uint_eq(count_names("../outside"), 1);
	ck_assert(holds("file", traps[_i].write == FILES_OK && strcmp(traps[_i].path, "file") == 0 ?
	    "overwritten" : "hello"));
	ck_assert(holds("dir/inner", "inner"));
	ck_assert_uint_eq(count_names("dir"), 2);
}
END_TEST

START_TEST(a_device_is_refused)
{
	if (mknod("device", S_IFCHR | 0666, makedev(1, 5)) < 0)
		return; /* only root can make one */
	ck_assert_code(serve("files.read", "{'path':'device'}"), FILES_not_regular);
	ck_assert_code(serve("files.write", "{'path':'device','text':''}"), FILES_not_regular);
	ck_assert_code(serve("files.stat", "{'path':'device'}"), FILES_not_regular);
}
END_TEST

/* Even an operator's root of / gives nothing of the kernel's. */
START_TEST(file_systems_of_the_kernel_are_refused_beneath_a_root)
{
	files_root_close(&root);
	ck_assert_int_eq(files_root_open("/", &root), 0);
	ck_assert_code(serve("files.read", "{'path':'proc/1/status'}"), FILES_permission);
	ck_assert_code(serve("files.list", "{'path':'proc'}"), FILES_permission);
	ck_assert_code(serve("files.read", "{'path':'proc/self/status'}"), FILES_symlink);
	ck_assert_code(serve("files.write", "{'path':'proc/1/comm','text':''}"), FILES_permission);
	ck_assert_code(serve("files.read", "{'path':'sys/kernel/notes'}"), FILES_permission);
	ck_assert_code(serve("files.read", "{'path':'dev/null'}"), FILES_not_regular);
	ck_assert_code(serve("files.read", "{'path':'etc/hostname'}"), FILES_OK);
}
END_TEST

/* The resource that was decided, and no other. */
START_TEST(an_argument_that_names_another_path_is_refused)
{
	static const struct {
		const char *decided, *argument;
	} rows[] = { { "a", "b" }, { "", "a" }, { "a", "" }, { "a/b", "a" }, { "a", "a/b" },
		{ "a", "a//" }, { "a", "A" }, { "a", "./a" }, { "..", ".." } };
	json_t *j;
	size_t i;

	put("a", "a");
	put("b", "b");
	for (i = 0; i < countof(rows); i++) {
		j = json_pack("{s:s}", "path", rows[i].argument);
		ck_assert_code(serve_on(rows[i].decided, "files.read", j),
		    FILES_invalid_tool_arguments);
		ck_assert_str_eq(result.field, "path");
		json_decref(j);
	}
	j = json_object();
	ck_assert_code(serve_on("a", "files.list", j), FILES_invalid_tool_arguments);
	json_object_set_new(j, "path", json_string("a"));
	ck_assert_code(serve_on("a", "files.read", j), FILES_OK);
	json_decref(j);
}
END_TEST

START_TEST(a_name_of_255_bytes_works_and_of_256_does_not)
{
	char name[257];

	memset(name, 'n', 256);
	name[256] = '\0';
	ck_assert_code(serve("files.write", "{'path':'%s','text':'x'}", name),
	    FILES_invalid_tool_arguments);
	name[255] = '\0';
	ck_assert_served("files.write", "{'path':'%s','text':'x'}", name);
	ck_assert_served("files.read", "{'path':'%s'}", name);
	ck_assert(text_is("text", "x"));
	ck_assert_served("files.write", "{'path':'%s','text':'y'}", name);
}
END_TEST

START_TEST(a_path_longer_than_the_kernels_is_walked_in_parts)
{
	char path[64 * 121] = "";

	close(make_deep(60, 119, path, sizeof(path)));
	ck_assert_uint_gt(strlen(path), 4096);
	ck_assert_served("files.write", "{'path':'%sf','text':'deep'}", path);
	ck_assert_served("files.read", "{'path':'%sf'}", path);
	ck_assert(text_is("text", "deep"));
	ck_assert_served("files.search", "{'name':'f'}");
	ck_assert_uint_eq(member("entries").count, 1);
}
END_TEST

/* ---- read and stat ---------------------------------------------------------------------- */

START_TEST(a_file_is_read_whole_or_by_slices)
{
	put("f", "0123456789");
	ck_assert_served("files.read", "{'path':'f'}");
	ck_assert(text_is("text", "0123456789") && is_true("complete"));
	ck_assert_uint_eq(number("size"), 10);
	ck_assert_served("files.read", "{'path':'f','offset':2,'length':3}");
	ck_assert(text_is("text", "234") && !is_true("complete"));
	ck_assert_uint_eq(number("offset"), 2);
	ck_assert_uint_eq(number("length"), 3);
	ck_assert_served("files.read", "{'path':'f','offset':7,'length':3}");
	ck_assert(text_is("text", "789") && is_true("complete"));
	ck_assert_served("files.read", "{'path':'f','offset':9007199254740991}");
	ck_assert(text_is("text", "") && is_true("complete"));
	put("empty", "");
	ck_assert_served("files.read", "{'path':'empty'}");
	ck_assert(text_is("text", "") && is_true("complete"));
}
END_TEST

START_TEST(a_character_that_a_slice_cuts_is_left_to_the_next)
{
	put("f", "a\xe6\xbc\xa2z");
	ck_assert_served("files.read", "{'path':'f','length':3}");
	ck_assert(text_is("text", "a") && !is_true("complete"));
	ck_assert_uint_eq(number("length"), 1);
	ck_assert_served("files.read", "{'path':'f','offset':1,'length':3}");
	ck_assert(text_is("text", "\xe6\xbc\xa2"));
	/* Where there is nothing else in the slice, its bytes come as they are. */
	ck_assert_served("files.read", "{'path':'f','offset':1,'length':2}");
	ck_assert(text_is("base64", "5rw=") && !has_member("text"));
	put("cut", "a\xe6\xbc");
	ck_assert_served("files.read", "{'path':'cut'}");
	ck_assert(text_is("base64", "Yea8") && is_true("complete"));
}
END_TEST

START_TEST(the_largest_read_fits_a_reply)
{
	cleanup_fd int fd = open("f", O_WRONLY | O_CREAT, 0666);
	char block[4096];
	int i;

	memset(block, 0xff, sizeof(block));
	for (i = 0; i < 160; i++)
		ck_assert_int_eq(write(fd, block, sizeof(block)), sizeof(block));
	ck_assert_served("files.read", "{'path':'f'}");
	ck_assert_uint_eq(number("length"), FILES_READ_MAX);
	ck_assert_uint_eq(member("base64").bytes.n, base64_size(FILES_READ_MAX));
	ck_assert(!is_true("complete"));
}
END_TEST

START_TEST(three_gibibytes_are_read_anywhere_in_flat_memory)
{
	const uint64_t size = 3ull << 30;
	cleanup_fd int fd = open("f", O_WRONLY | O_CREAT, 0666);
	long before = peak_kib();
	uint64_t at;

	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	ck_assert_int_eq(pwrite(fd, "end", 3, (off_t)size - 3), 3);
	for (at = 0; at < size; at += 256ull << 20)
		ck_assert_served("files.read", "{'path':'f','offset':%llu}", (unsigned long long)at);
	ck_assert_served("files.read", "{'path':'f','offset':%llu}", (unsigned long long)size - 3);
	ck_assert(text_is("text", "end") && is_true("complete"));
	ck_assert_uint_eq(number("size"), size);
	assert_flat(before, 8 << 10);
}
END_TEST

START_TEST(stat_tells_type_size_mode_time_and_links)
{
	static const struct timespec times[2] = { { 0, UTIME_OMIT }, { 1234567890, 123456789 } };

	put("f", "hello");
	ck_assert_int_eq(chmod("f", 0640), 0);
	ck_assert_int_eq(link("f", "g"), 0);
	ck_assert_int_eq(utimensat(AT_FDCWD, "f", times, 0), 0);
	ck_assert_served("files.stat", "{'path':'f'}");
	ck_assert(text_is("type", "file") && is_true("complete"));
	ck_assert_uint_eq(number("size"), 5);
	ck_assert_uint_eq(number("mode"), 0640);
	ck_assert_uint_eq(number("modified"), 1234567890123);
	ck_assert_uint_eq(number("links"), 2);
	ck_assert_served("files.stat", "{'path':''}");
	ck_assert(text_is("type", "directory"));
}
END_TEST

/* ---- list --------------------------------------------------------------------------------- */

START_TEST(a_listing_is_in_the_order_of_bytes_with_type_and_size)
{
	char out[512] = "";

	make_traps();
	put("B", "xyz");
	put("\xc3\xa9", "");
	ck_assert_served("files.list", "{}");
	entries("name", out, sizeof(out));
	ck_assert_str_eq(out, "B absolute dangling dir fifo file leaf loop magic parent socket up "
	    "\xc3\xa9 ");
	out[0] = '\0';
	entries("type", out, sizeof(out));
	ck_assert_str_eq(out, "file symlink symlink directory other file symlink symlink symlink "
	    "symlink other symlink file ");
	ck_assert(is_true("complete"));
	ck_assert_uint_eq(number("unlisted"), 0);
}
END_TEST

START_TEST(names_that_no_path_can_hold_are_counted_and_leftovers_are_not)
{
	char out[64] = "";

	put("good", "");
	put("line\nbreak", "");
	put("\xff", "");
	put(" edge", "");
	put(".caisson-0123456789abcdef.tmp", "");
	ck_assert_served("files.list", "{}");
	ck_assert_uint_eq(entries("name", out, sizeof(out)), 1);
	ck_assert_uint_eq(number("unlisted"), 3);
	ck_assert_served("files.search", "{'name':'*'}");
	ck_assert_uint_eq(member("entries").count, 1);
	ck_assert_uint_eq(number("unlisted"), 3);
}
END_TEST

START_TEST(pages_join_to_the_whole_whatever_comes_and_goes_between)
{
	char name[16], out[512] = "", *cursor = strdup("");
	int i, pages = 0;

	for (i = 10; i < 30; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put(name, "");
	}
	do {
		ck_assert_served("files.list", "{'limit':3%s}", cursor);
		entries("name", out, sizeof(out));
		free(cursor);
		cursor = next_cursor();
		if (pages++ == 1) { /* 15 was the last: it goes, one before and one after come */
			ck_assert_int_eq(unlink("15"), 0);
			put("0", "");
			put("155", "");
		}
	} while (*cursor != '\0');
	free(cursor);
	ck_assert_str_eq(out, "10 11 12 13 14 15 155 16 17 18 19 20 21 22 23 24 25 26 27 28 29 ");
}
END_TEST

START_TEST(a_cursor_that_is_none_is_refused)
{
	/* "A===", no base64; "x", no letter; "l", no name; "la/b"; "l.."; "s" for the other. */
	static const char *const list[] = { "A===", "eA==", "bA==", "bGEvYg==", "bC4u", "c2E=" };
	static const char *const search[] = { "A===", "cw==", "cy4u", "c2Ev", "c2EvLi4=", "bGE=" };

	ck_assert_code(serve("files.list", "{'cursor':'%s'}", list[_i]), FILES_invalid_cursor);
	ck_assert_code(
	    serve("files.search", "{'name':'*','cursor':'%s'}", search[_i]), FILES_invalid_cursor);
	ck_assert_str_eq(result.field, "cursor");
}
END_TEST

START_TEST(a_large_directory_is_listed_and_searched_in_flat_memory)
{
	enum { NAMES = 20000 };
	char name[16], *cursor = strdup("");
	size_t listed = 0, found = 0;
	long before;
	int i;

	ck_assert_int_eq(mkdir("d", 0777), 0);
	for (i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "d/%d", i);
		ck_assert_int_eq(mknod(name, S_IFREG | 0644, 0), 0);
	}
	before = peak_kib();
	do {
		ck_assert_served("files.list", "{'path':'d'%s}", cursor);
		listed += member("entries").count;
		free(cursor);
		cursor = next_cursor();
	} while (*cursor != '\0');
	ck_assert_uint_eq(listed, NAMES);
	do {
		ck_assert_served("files.search", "{'path':'','name':'*7'%s}", cursor);
		found += member("entries").count;
		free(cursor);
		cursor = next_cursor();
	} while (*cursor != '\0');
	free(cursor);
	ck_assert_uint_eq(found, NAMES / 10);
	assert_flat(before, 8 << 10);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("files");
	TCase *traps_case = tcase_create("traps"), *read_case = tcase_create("read");
	TCase *list_case = tcase_create("list");

	tcase_add_checked_fixture(traps_case, fixture_setup, fixture_teardown);
	tcase_add_loop_test(
	    traps_case, nothing_but_files_and_directories_is_touched, 0, countof(traps));
	tcase_add_test(traps_case, a_device_is_refused);
	tcase_add_test(traps_case, file_systems_of_the_kernel_are_refused_beneath_a_root);
	tcase_add_test(traps_case, an_argument_that_names_another_path_is_refused);
	tcase_add_test(traps_case, a_name_of_255_bytes_works_and_of_256_does_not);
	tcase_add_test(traps_case, a_path_longer_than_the_kernels_is_walked_in_parts);
	suite_add_tcase(s, traps_case);
	tcase_add_checked_fixture(read_case, fixture_setup, fixture_teardown);
	tcase_add_test(read_case, a_file_is_read_whole_or_by_slices);
	tcase_add_test(read_case, a_character_that_a_slice_cuts_is_left_to_the_next);
	tcase_add_test(read_case, the_largest_read_fits_a_reply);
	tcase_add_test(read_case, three_gibibytes_are_read_anywhere_in_flat_memory);
	tcase_add_test(read_case, stat_tells_type_size_mode_time_and_links);
	suite_add_tcase(s, read_case);
	tcase_add_checked_fixture(list_case, fixture_setup, fixture_teardown);
	tcase_set_timeout(list_case, 60);
	tcase_add_test(list_case, a_listing_is_in_the_order_of_bytes_with_type_and_size);
	tcase_add_test(
	    list_case, names_that_no_path_can_hold_are_counted_and_leftovers_are_not);
	tcase_add_test(list_case, pages_join_to_the_whole_whatever_comes_and_goes_between);
	tcase_add_loop_test(list_case, a_cursor_that_is_none_is_refused, 0, 6);
	tcase_add_test(list_case, a_large_directory_is_listed_and_searched_in_flat_memory);
	suite_add_tcase(s, list_case);
	return run_suite(s);
}
