/* The tools of the files provider on real directories: write. */
#include <sys/file.h>

#include "tests/unit/files_fixture.h"

#define HELLO_SHA256 "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

/* ---- write: each once with unnamed and once with named files (_i) ------------------------ */

START_TEST(a_write_makes_and_replaces_a_whole_file)
{
	struct stat st;

	root.named_temps = _i;
	umask(0);
	ck_assert_served("files.write", "{'path':'f','text':'hello'}");
	ck_assert(is_true("created") && is_true("complete"));
	ck_assert_uint_eq(number("size"), 5);
	ck_assert(text_is("sha256", HELLO_SHA256));
	ck_assert(holds("f", "hello"));
	ck_assert_int_eq(stat("f", &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0644);
	ck_assert_served("files.write", "{'path':'f','base64':'aGk='}");
	ck_assert(!is_true("created"));
	ck_assert(holds("f", "hi"));
	ck_assert_served("files.write", "{'path':'f','text':''}");
	ck_assert(holds("f", ""));
	ck_assert_uint_eq(count_names("."), 1);
}
END_TEST

START_TEST(a_write_keeps_the_mode_but_no_special_bits)
{
	struct stat st;

	root.named_temps = _i;
	put("f", "old");
	ck_assert_int_eq(chmod("f", 06751), 0);
	ck_assert_served("files.write", "{'path':'f','text':'new'}");
	ck_assert_int_eq(stat("f", &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0751);
}
END_TEST

START_TEST(create_only_refuses_what_exists)
{
	root.named_temps = _i;
	ck_assert_served("files.write", "{'path':'f','text':'1','createOnly':true}");
	ck_assert(is_true("created"));
	ck_assert_code(
	    serve("files.write", "{'path':'f','text':'2','createOnly':true}"), FILES_exists);
	ck_assert(holds("f", "1"));
	ck_assert_served("files.write", "{'path':'f','text':'3','createOnly':false}");
	ck_assert(holds("f", "3"));
	ck_assert_uint_eq(count_names("."), 1);
}
END_TEST

START_TEST(an_expected_digest_must_be_that_of_the_old_content)
{
	root.named_temps = _i;
	ck_assert_code(serve("files.write", "{'path':'f','text':'x','expect':'" HELLO_SHA256 "'}"),
	    FILES_not_found);
	put("f", "other");
	ck_assert_code(serve("files.write", "{'path':'f','text':'x','expect':'" HELLO_SHA256 "'}"),
	    FILES_changed);
	ck_assert_str_eq(result.field, "expect");
	ck_assert(holds("f", "other"));
	put("f", "hello");
	ck_assert_served("files.write", "{'path':'f','text':'x','expect':'" HELLO_SHA256 "'}");
	ck_assert(holds("f", "x"));
	ck_assert_uint_eq(count_names("."), 1);
}
END_TEST

/* A lock that somebody holds is a refusal, never a wait. */
START_TEST(a_conditional_write_never_waits_for_another)
{
	cleanup_fd int fd = open(".", O_RDONLY | O_DIRECTORY);

	root.named_temps = _i;
	put("f", "hello");
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ck_assert_code(serve("files.write", "{'path':'f','text':'x','expect':'" HELLO_SHA256 "'}"),
	    FILES_busy);
	ck_assert_served("files.write", "{'path':'g','text':'x'}");
	ck_assert_int_eq(flock(fd, LOCK_UN), 0);
	ck_assert_served("files.write", "{'path':'f','text':'x','expect':'" HELLO_SHA256 "'}");
	ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
}
END_TEST

START_TEST(a_hard_link_is_read_and_its_other_name_never_written)
{
	root.named_temps = _i;
	put("../outside/other", "hello");
	ck_assert_int_eq(link("../outside/other", "f"), 0);
	ck_assert_served("files.read", "{'path':'f'}");
	ck_assert(text_is("text", "hello"));
	ck_assert_served("files.write", "{'path':'f','text':'new'}");
	ck_assert(holds("f", "new"));
	ck_assert(holds("../outside/other", "hello"));
	ck_assert_int_eq(unlink("f"), 0);
	ck_assert_int_eq(link("../outside/other", "f"), 0);
	ck_assert_served("files.write", "{'path':'f','text':'new','expect':'" HELLO_SHA256 "'}");
	ck_assert(holds("../outside/other", "hello"));
}
END_TEST

START_TEST(a_file_belongs_to_the_owner_of_the_root)
{
	struct stat st;

	if (geteuid() != 0)
		return; /* whoever writes is the owner */
	ck_assert_int_eq(chown(".", 65534, 65533), 0);
	files_root_close(&root);
	ck_assert_int_eq(files_root_open(".", &root), 0);
	root.named_temps = _i;
	ck_assert_served("files.write", "{'path':'f','text':'x'}");
	ck_assert_int_eq(stat("f", &st), 0);
	ck_assert_uint_eq(st.st_uid, 65534);
	ck_assert_uint_eq(st.st_gid, 65533);
}
END_TEST

START_TEST(a_file_over_the_size_limit_is_no_space_and_leaves_the_old)
{
	struct rlimit limit = { 1000, 1000 };
	char text[2001];

	root.named_temps = _i;
	memset(text, 'x', sizeof(text) - 1);
	text[2000] = '\0';
	put("f", "old");
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_code(serve("files.write", "{'path':'f','text':'%s'}", text), FILES_no_space);
	ck_assert_code(serve("files.write", "{'path':'g','text':'%s'}", text), FILES_no_space);
	ck_assert(holds("f", "old"));
	ck_assert_uint_eq(count_names("."), 1);
}
END_TEST

START_TEST(a_full_disk_is_no_space_and_leaves_the_old)
{
	char *text;

	if (!mount_small("size=64k,mode=777"))
		return;
	root.named_temps = _i;
	text = calloc(1, 100001);
	memset(text, 'x', 100000);
	put("f", "old");
	ck_assert_code(serve("files.write", "{'path':'f','text':'%s'}", text), FILES_no_space);
	ck_assert(files_code_retryable(FILES_no_space));
	ck_assert(holds("f", "old"));
	ck_assert_uint_eq(count_names("."), 1);
	ck_assert_served("files.write", "{'path':'f','text':'small'}");
	free(text);
	umount_small();
}
END_TEST

START_TEST(what_the_file_system_forbids_is_permission)
{
	if (geteuid() == 0)
		return; /* to whom nothing is forbidden */
	root.named_temps = _i;
	put("f", "x");
	ck_assert_int_eq(chmod("f", 0), 0);
	ck_assert_code(serve("files.read", "{'path':'f'}"), FILES_permission);
	ck_assert_int_eq(mkdir("d", 0777), 0);
	ck_assert_int_eq(chmod("d", 0555), 0);
	ck_assert_code(serve("files.write", "{'path':'d/f','text':''}"), FILES_permission);
	ck_assert_int_eq(chmod("d", 0), 0);
	ck_assert_code(serve("files.list", "{'path':'d'}"), FILES_permission);
	ck_assert_served("files.search", "{'name':'*'}");
	ck_assert_uint_eq(number("unsearched"), 1);
	ck_assert_int_eq(chmod("d", 0777), 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("files_write");
	TCase *write_case = tcase_create("write");

	tcase_add_checked_fixture(write_case, fixture_setup, fixture_teardown);
	tcase_add_loop_test(write_case, a_write_makes_and_replaces_a_whole_file, 0, 2);
	tcase_add_loop_test(write_case, a_write_keeps_the_mode_but_no_special_bits, 0, 2);
	tcase_add_loop_test(write_case, create_only_refuses_what_exists, 0, 2);
	tcase_add_loop_test(write_case, an_expected_digest_must_be_that_of_the_old_content, 0, 2);
	tcase_add_loop_test(write_case, a_conditional_write_never_waits_for_another, 0, 2);
	tcase_add_loop_test(
	    write_case, a_hard_link_is_read_and_its_other_name_never_written, 0, 2);
	tcase_add_loop_test(write_case, a_file_belongs_to_the_owner_of_the_root, 0, 2);
	tcase_add_loop_test(
	    write_case, a_file_over_the_size_limit_is_no_space_and_leaves_the_old, 0, 2);
	tcase_add_loop_test(write_case, a_full_disk_is_no_space_and_leaves_the_old, 0, 2);
	tcase_add_loop_test(write_case, what_the_file_system_forbids_is_permission, 0, 2);
	suite_add_tcase(s, write_case);
	return run_suite(s);
}
