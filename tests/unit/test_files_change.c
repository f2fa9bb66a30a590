/* files.delete, files.rename and files.mkdir on real directories. */
#include "tests/unit/files_fixture.h"

#include <sys/file.h>
#include <sys/sysmacros.h>

#define HELLO_SHA256 "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

static void
make_world(void)
{
	make_traps();
	put("other", "other");
	ck_assert_int_eq(mkdir("empty", 0777) | mkdir("hollow", 0777), 0);
}

static bool
stands(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static mode_t
mode_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(lstat(path, &st), 0);
	return st.st_mode;
}

/* ---- delete ------------------------------------------------------------------------------- */

static const struct {
	const char *path;
	enum files_code code;
} deletes[] = {
	{ "file", FILES_OK },
	{ "empty", FILES_OK },
	{ "empty/", FILES_OK },
	{ "dir/inner", FILES_OK },
	{ "dir", FILES_not_empty },
	{ "dir/", FILES_not_empty },
	{ "file/", FILES_not_directory },
	{ "file/x", FILES_not_directory },
	{ "missing", FILES_not_found },
	{ "missing/x", FILES_not_found },
	{ "", FILES_is_root },
	{ ".", FILES_is_root },
	{ "leaf", FILES_symlink },
	{ "parent", FILES_symlink },
	{ "parent/", FILES_symlink },
	{ "parent/inner", FILES_symlink },
	{ "dangling", FILES_symlink },
	{ "up", FILES_symlink },
	{ "up/secret", FILES_symlink },
	{ "fifo", FILES_not_regular },
	{ "socket", FILES_not_regular },
	{ "..", FILES_invalid_tool_arguments },
	{ "dir/..", FILES_invalid_tool_arguments },
	{ "../outside/secret", FILES_invalid_tool_arguments },
	{ ".caisson-0123456789abcdef.tmp", FILES_invalid_tool_arguments },
};

START_TEST(a_file_or_an_empty_directory_is_deleted_and_nothing_else)
{
	size_t before, removed = deletes[_i].code == FILES_OK;

	make_world();
	put(".caisson-0123456789abcdef.tmp", "");
	before = count_names(".") + count_names("dir");
	ck_assert_code(serve("files.delete", "{'path':'%s'}", deletes[_i].path), deletes[_i].code);
	ck_assert(stands(deletes[_i].path) == (!removed && deletes[_i].code != FILES_not_found &&
	    deletes[_i].code != FILES_not_directory && deletes[_i].path[0] != '\0'));
	ck_assert_uint_eq(count_names(".") + (stands("dir") ? count_names("dir") : 0),
	    before - removed);
	ck_assert(holds("../outside/secret", "secret"));
}
END_TEST

START_TEST(a_deletion_says_what_it_was)
{
	make_world();
	ck_assert_served("files.delete", "{'path':'file'}");
	ck_assert(text_is("type", "file") && is_true("complete"));
	ck_assert_served("files.delete", "{'path':'empty'}");
	ck_assert(text_is("type", "directory"));
}
END_TEST

START_TEST(an_expected_digest_must_be_that_of_what_is_deleted)
{
	cleanup_fd int fd = open(".", O_RDONLY | O_DIRECTORY);

	make_world();
	ck_assert_code(
	    serve("files.delete", "{'path':'other','expect':'" HELLO_SHA256 "'}"), FILES_changed);
	ck_assert_str_eq(result.field, "expect");
	ck_assert_code(
	    serve("files.delete", "{'path':'empty','expect':'" HELLO_SHA256 "'}"), FILES_is_directory);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ck_assert_code(
	    serve("files.delete", "{'path':'file','expect':'" HELLO_SHA256 "'}"), FILES_busy);
	ck_assert_int_eq(flock(fd, LOCK_UN), 0);
	ck_assert(stands("other") && stands("empty") && stands("file"));
	ck_assert_served("files.delete", "{'path':'file','expect':'" HELLO_SHA256 "'}");
	ck_assert(!stands("file"));
	ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
}
END_TEST

START_TEST(of_a_hard_link_the_other_name_stays)
{
	put("../outside/other", "hello");
	ck_assert_int_eq(link("../outside/other", "f"), 0);
	ck_assert_served("files.delete", "{'path':'f'}");
	ck_assert(holds("../outside/other", "hello"));
}
END_TEST

/* ---- rename ------------------------------------------------------------------------------- */

static const struct {
	const char *path, *from, *to;
	bool replace;
	enum files_code code;
	const char *field; /* with another code than OK */
} renames[] = {
	{ "", "file", "new", false, FILES_OK, NULL },
	{ "dir", "inner", "new", false, FILES_OK, NULL },
	{ "dir/", "inner", "new", false, FILES_OK, NULL },
	{ "", "dir", "new", false, FILES_OK, NULL },
	{ "", "file", "other", false, FILES_exists, "to" },
	{ "", "file", "other", true, FILES_OK, NULL },
	{ "", "file", "new", true, FILES_OK, NULL },
	{ "", "file", "dir", true, FILES_is_directory, "to" },
	{ "", "file", "empty", true, FILES_is_directory, "to" },
	{ "", "dir", "file", true, FILES_is_directory, "to" },
	{ "", "dir", "empty", true, FILES_is_directory, "to" },
	{ "", "empty", "hollow", false, FILES_exists, "to" },
	{ "", "file", "leaf", true, FILES_symlink, "to" },
	{ "", "file", "dangling", false, FILES_symlink, "to" },
	{ "", "file", "fifo", true, FILES_not_regular, "to" },
	{ "", "leaf", "new", false, FILES_symlink, "from" },
	{ "", "parent", "new", false, FILES_symlink, "from" },
	{ "", "fifo", "new", false, FILES_not_regular, "from" },
	{ "", "missing", "new", false, FILES_not_found, "from" },
	{ "", "missing", "file", true, FILES_not_found, "from" },
	{ "missing", "a", "b", false, FILES_not_found, "path" },
	{ "file", "a", "b", false, FILES_not_directory, "path" },
	{ "parent", "inner", "new", false, FILES_symlink, "path" },
	{ "up", "secret", "new", false, FILES_symlink, "path" },
	{ "../outside", "secret", "new", false, FILES_invalid_tool_arguments, "path" },
};

START_TEST(a_name_is_changed_within_its_directory_as_its_row_says)
{
	bool served = renames[_i].code == FILES_OK;
	size_t before;

	make_world();
	before = count_names(".");
	ck_assert_code(serve("files.rename", "{'path':'%s','from':'%s','to':'%s','replace':%s}",
	    renames[_i].path, renames[_i].from, renames[_i].to,
	    renames[_i].replace ? "true" : "false"), renames[_i].code);
	if (!served)
		ck_assert_str_eq(result.field, renames[_i].field);
	else
		ck_assert(is_true("replaced") == (strcmp(renames[_i].to, "other") == 0));
	ck_assert_uint_eq(count_names("."), before - (served && is_true("replaced")));
	ck_assert_int_eq(chdir(renames[_i].path[0] != '\0' && served ? renames[_i].path : "."), 0);
	ck_assert(stands(renames[_i].from) == (!served && strcmp(renames[_i].from, "missing") != 0 &&
	    renames[_i].field[0] != 'p'));
	if (served && strcmp(renames[_i].from, "file") == 0)
		ck_assert(holds(renames[_i].to, "hello"));
	ck_assert_int_eq(chdir(top) | chdir("root"), 0);
	ck_assert(holds("../outside/secret", "secret"));
	ck_assert_uint_eq(count_names("../outside"), 1);
}
END_TEST

START_TEST(an_expected_digest_must_be_that_of_what_is_replaced)
{
	make_world();
	ck_assert_code(serve("files.rename",
	    "{'from':'file','to':'other','replace':true,'expect':'" HELLO_SHA256 "'}"),
	    FILES_changed);
	ck_assert_code(serve("files.rename",
	    "{'from':'file','to':'new','replace':true,'expect':'" HELLO_SHA256 "'}"),
	    FILES_not_found);
	ck_assert(holds("file", "hello") && holds("other", "other") && !stands("new"));
	ck_assert_served("files.rename",
	    "{'from':'other','to':'file','replace':true,'expect':'" HELLO_SHA256 "'}");
	ck_assert(holds("file", "other") && !stands("other"));
}
END_TEST

/* Of two names of one file, rename() keeps both and reports success. */
START_TEST(two_names_of_one_file_become_one)
{
	put("a", "hello");
	ck_assert_int_eq(link("a", "b"), 0);
	ck_assert_code(serve("files.rename", "{'from':'a','to':'b'}"), FILES_exists);
	ck_assert_served("files.rename", "{'from':'a','to':'b','replace':true}");
	ck_assert(!stands("a") && holds("b", "hello"));
}
END_TEST

/* ---- mkdir -------------------------------------------------------------------------------- */

START_TEST(one_directory_is_made_and_no_more)
{
	make_world();
	umask(0);
	ck_assert_served("files.mkdir", "{'path':'new'}");
	ck_assert(is_true("complete"));
	ck_assert_uint_eq(mode_of("new"), S_IFDIR | 0755);
	umask(077);
	ck_assert_served("files.mkdir", "{'path':'new/below/'}");
	ck_assert_uint_eq(mode_of("new/below"), S_IFDIR | 0755);
	ck_assert_code(serve("files.mkdir", "{'path':'new'}"), FILES_exists);
	ck_assert_code(serve("files.mkdir", "{'path':'file'}"), FILES_exists);
	ck_assert_code(serve("files.mkdir", "{'path':''}"), FILES_exists);
	ck_assert_code(serve("files.mkdir", "{'path':'leaf'}"), FILES_symlink);
	ck_assert_code(serve("files.mkdir", "{'path':'dangling'}"), FILES_symlink);
	ck_assert_code(serve("files.mkdir", "{'path':'parent/new'}"), FILES_symlink);
	ck_assert_code(serve("files.mkdir", "{'path':'up/new'}"), FILES_symlink);
	ck_assert_code(serve("files.mkdir", "{'path':'missing/new'}"), FILES_not_found);
	ck_assert_code(serve("files.mkdir", "{'path':'file/new'}"), FILES_not_directory);
	ck_assert_uint_eq(count_names("../outside"), 1);
	ck_assert_uint_eq(count_names("new"), 1);
}
END_TEST

START_TEST(a_directory_belongs_to_the_owner_of_the_root)
{
	struct stat st;

	if (geteuid() != 0)
		return; /* whoever makes it is the owner */
	ck_assert_int_eq(chown(".", 65534, 65533), 0);
	files_root_close(&root);
	ck_assert_int_eq(files_root_open(".", &root), 0);
	ck_assert_served("files.mkdir", "{'path':'d'}");
	ck_assert_int_eq(stat("d", &st), 0);
	ck_assert_uint_eq(st.st_uid, 65534);
	ck_assert_uint_eq(st.st_gid, 65533);
}
END_TEST

/* ---- what the file system refuses --------------------------------------------------------- */

START_TEST(a_full_file_system_is_no_space_and_changes_nothing)
{
	if (!mount_small("nr_inodes=3,mode=777"))
		return;
	put("f", "x");
	ck_assert_served("files.mkdir", "{'path':'d'}");
	ck_assert_code(serve("files.mkdir", "{'path':'e'}"), FILES_no_space);
	ck_assert_uint_eq(count_names("."), 2);
	ck_assert_served("files.delete", "{'path':'f'}");
	ck_assert_served("files.mkdir", "{'path':'e'}");
	umount_small();
}
END_TEST

START_TEST(a_read_only_file_system_and_what_is_mounted_stay)
{
	if (!mount_small("mode=777"))
		return;
	put("f", "x");
	ck_assert_int_eq(mkdir("m", 0777), 0);
	ck_assert_int_eq(mount("tmpfs", "m", "tmpfs", 0, ""), 0);
	ck_assert_code(serve("files.delete", "{'path':'m'}"), FILES_permission);
	ck_assert_code(serve("files.rename", "{'from':'m','to':'n'}"), FILES_permission);
	ck_assert_int_eq(umount2("m", MNT_DETACH), 0);
	ck_assert_int_eq(mount(NULL, ".", NULL, MS_REMOUNT | MS_RDONLY, ""), 0);
	ck_assert_code(serve("files.delete", "{'path':'f'}"), FILES_permission);
	ck_assert_code(serve("files.delete", "{'path':'m'}"), FILES_permission);
	ck_assert_code(serve("files.rename", "{'from':'f','to':'g'}"), FILES_permission);
	ck_assert_code(serve("files.mkdir", "{'path':'d'}"), FILES_permission);
	ck_assert_uint_eq(count_names("."), 2);
	umount_small();
}
END_TEST

/* Of an overlay's lower layer a directory would have to be copied, name by name. */
START_TEST(what_would_have_to_be_copied_is_refused)
{
	if (!mount_small("mode=777"))
		return;
	ck_assert_int_eq(mkdir("lower", 0777) | mkdir("lower/d", 0777) | mkdir("upper", 0777) |
	    mkdir("work", 0777) | mkdir("merged", 0777), 0);
	put("lower/f", "hello");
	if (mount("overlay", "merged", "overlay", 0,
	    "lowerdir=lower,upperdir=upper,workdir=work,userxattr") == 0) {
		ck_assert_code(serve("files.rename", "{'path':'merged','from':'d','to':'e'}"),
		    FILES_other_device);
		ck_assert_str_eq(result.field, "to");
		ck_assert_served("files.rename", "{'path':'merged','from':'f','to':'g'}");
		ck_assert(stands("merged/d") && holds("merged/g", "hello") && !stands("merged/f"));
		ck_assert_served("files.delete", "{'path':'merged/d'}");
		ck_assert_served("files.mkdir", "{'path':'merged/d'}");
		ck_assert_served("files.grep", "{'path':'merged','text':'hello'}");
		ck_assert_uint_eq(member("entries").count, 1);
		ck_assert_int_eq(umount2("merged", MNT_DETACH), 0);
	}
	umount_small();
}
END_TEST

START_TEST(what_the_file_system_forbids_is_permission)
{
	if (geteuid() == 0)
		return; /* to whom nothing is forbidden */
	ck_assert_int_eq(mkdir("d", 0777) | mkdir("d/e", 0777), 0);
	put("d/f", "x");
	ck_assert_int_eq(chmod("d", 0555), 0);
	ck_assert_code(serve("files.delete", "{'path':'d/f'}"), FILES_permission);
	ck_assert_code(serve("files.delete", "{'path':'d/e'}"), FILES_permission);
	ck_assert_code(serve("files.rename", "{'path':'d','from':'f','to':'g'}"), FILES_permission);
	ck_assert_code(serve("files.mkdir", "{'path':'d/new'}"), FILES_permission);
	ck_assert_int_eq(chmod("d", 0777), 0);
	ck_assert(holds("d/f", "x"));
}
END_TEST

START_TEST(devices_and_kernel_file_systems_stay)
{
	if (mknod("device", S_IFCHR | 0666, makedev(1, 5)) == 0) { /* only root can */
		ck_assert_code(serve("files.delete", "{'path':'device'}"), FILES_not_regular);
		ck_assert_code(
		    serve("files.rename", "{'from':'device','to':'x'}"), FILES_not_regular);
		ck_assert(stands("device"));
	}
	files_root_close(&root);
	ck_assert_int_eq(files_root_open("/", &root), 0);
	ck_assert_code(serve("files.mkdir", "{'path':'proc/1/x'}"), FILES_permission);
	ck_assert_code(serve("files.delete", "{'path':'proc/1'}"), FILES_permission);
	ck_assert_code(
	    serve("files.rename", "{'path':'proc/sys','from':'fs','to':'x'}"), FILES_permission);
	ck_assert_code(serve("files.grep", "{'path':'proc/1','text':'a'}"), FILES_permission);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("files_change");
	TCase *c = tcase_create("change");

	tcase_add_checked_fixture(c, fixture_setup, fixture_teardown);
	tcase_add_loop_test(
	    c, a_file_or_an_empty_directory_is_deleted_and_nothing_else, 0, countof(deletes));
	tcase_add_test(c, a_deletion_says_what_it_was);
	tcase_add_test(c, an_expected_digest_must_be_that_of_what_is_deleted);
	tcase_add_test(c, of_a_hard_link_the_other_name_stays);
	tcase_add_loop_test(
	    c, a_name_is_changed_within_its_directory_as_its_row_says, 0, countof(renames));
	tcase_add_test(c, an_expected_digest_must_be_that_of_what_is_replaced);
	tcase_add_test(c, two_names_of_one_file_become_one);
	tcase_add_test(c, one_directory_is_made_and_no_more);
	tcase_add_test(c, a_directory_belongs_to_the_owner_of_the_root);
	tcase_add_test(c, a_full_file_system_is_no_space_and_changes_nothing);
	tcase_add_test(c, a_read_only_file_system_and_what_is_mounted_stay);
	tcase_add_test(c, what_would_have_to_be_copied_is_refused);
	tcase_add_test(c, what_the_file_system_forbids_is_permission);
	tcase_add_test(c, devices_and_kernel_file_systems_stay);
	suite_add_tcase(s, c);
	return run_suite(s);
}
