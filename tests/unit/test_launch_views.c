/*
 * launch_views: what mounts of one chamber grant together.
 */
#include "supervisor/launch_views.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "common/util.h"

static struct views views;

static void
drop_views(void)
{
	views_finish(&views);
}

static void
add(const char *source, const char *target, bool writable)
{
	struct view v = { .source = source, .target = target, .writable = writable,
		.executable = !writable };

	ck_assert_int_eq(views_add(&views, &v), 0);
}

/* "target[wx] ..." in their order. */
static const char *
all(void)
{
	static char text[512];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < views.n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s%s%s", i > 0 ? " " : "",
		    views.v[i].target, views.v[i].writable ? "+w" : "",
		    views.v[i].executable ? "+x" : "");
	return text;
}

START_TEST(what_lies_below_is_told_by_whole_names)
{
	ck_assert_str_eq(views_below("/a/b", "/a"), "b");
	ck_assert_str_eq(views_below("//a///b/c", "/a/"), "b/c");
	ck_assert_str_eq(views_below("/a", "/a//"), "");
	ck_assert_str_eq(views_below("/a", "/"), "a");
	ck_assert_ptr_null(views_below("/ab", "/a"));
	ck_assert_ptr_null(views_below("/a", "/a/b"));
	ck_assert_ptr_null(views_below("a/b", "a"));
}
END_TEST

START_TEST(mounts_that_share_nothing_stay_as_they_were_said)
{
	add("/srv/b", "/b", true);
	add("/srv/a", "/a", false);
	add("/srv/bc", "/deep/er", false);
	add("/opt", "/c", true);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/b+w /a+x /c+w /deep/er+x");
}
END_TEST

START_TEST(who_stands_in_another_is_mounted_after_it)
{
	add("/p/.git", "/p/.git", false);
	add("/p", "/p", true);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/p+w /p/.git+x");
}
END_TEST

START_TEST(what_lies_between_becomes_a_mount)
{
	add("/p", "/q", true);
	add("/p/a//b/c", "/q/a/b/c", false);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/q+w /q/a+w /q/a/b+w /q/a/b/c+x");
	ck_assert_str_eq(views.v[1].source, "/p/a");
	ck_assert_str_eq(views.v[2].source, "/p/a/b");
	ck_assert_str_eq(views.v[2].whole, "/p");
	ck_assert_ptr_null(views.v[0].whole);
}
END_TEST

START_TEST(what_lies_between_and_is_a_mount_stays_the_one_it_is)
{
	add("/p", "/p", true);
	add("/p/a/b/c", "/p/a/b/c", false);
	add("/p/a/b/", "/p/a/b/", true);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/p+w /p/a+w /p/a/b/+w /p/a/b/c+x");
	ck_assert_ptr_null(views.v[2].whole);
}
END_TEST

START_TEST(what_lies_between_can_be_written_and_starts_nothing_elsewhere)
{
	add("/p", "/p", true);
	add("/p/a/b", "/p/a/b", false);
	add("/p/a", "/app", false);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/p+w /app /p/a+w /p/a/b+x");
}
END_TEST

START_TEST(nothing_is_moved_within_what_is_read_only)
{
	add("/p", "/p", true);
	add("/p/a", "/p/a", false);
	add("/p/a/b/c", "/p/a/b/c", false);
	ck_assert_int_eq(views_settle(&views), 0);
}
END_TEST

START_TEST(a_writable_directory_in_a_program_s_starts_none)
{
	add("/srv/app", "/app", false);
	add("/srv/app/var/data", "/data", true);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/app+x /data+w /app/var/data");
	ck_assert_str_eq(views.v[2].source, "/srv/app/var/data");
}
END_TEST

START_TEST(a_writable_directory_in_its_own_place_is_no_program_s)
{
	add("/srv/app", "/app", false);
	add("/srv/app/data", "/app/data", true);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/app+x /app/data+w");
}
END_TEST

START_TEST(what_can_be_written_elsewhere_starts_nothing)
{
	add("/srv/app", "/app", false);
	add("/srv", "/srv", true);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/app /srv+w");
}
END_TEST

START_TEST(the_same_directory_twice_starts_nothing)
{
	add("/srv", "/w", true);
	add("/srv", "/r", false);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/w+w /r");
}
END_TEST

START_TEST(the_system_is_never_writable)
{
	struct view usr = { .source = "/usr", .target = "/usr", .executable = true,
		.standing = true };

	views_add(&views, &usr);
	add("/usr/local/share/x", "/x", true);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/usr+x /x+w /usr/local/share/x");
	add("/", "/host", true);
	ck_assert_int_eq(views_settle(&views), -EACCES);
}
END_TEST

START_TEST(our_own_programs_are_read_only_where_somebody_works_on_them)
{
	struct view libexec = { .source = "/src/build/libexec", .target = "/libexec",
		.executable = true, .standing = true, .ours = true };

	views_add(&views, &libexec);
	add("/src", "/root", true);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/libexec+x /root+w /root/build/libexec");
	add("/src/build/libexec", "/x", true);
	ck_assert_int_eq(views_settle(&views), -EACCES);
}
END_TEST

START_TEST(a_directory_whose_programs_are_wanted_is_left_alone)
{
	struct view w = { .source = "/state/w", .target = "/workspace", .writable = true,
		.executable = true };

	views_add(&views, &w);
	add("/state", "/app", false);
	ck_assert_int_eq(views_settle(&views), 0);
	ck_assert_str_eq(all(), "/workspace+w+x /app+x");
}
END_TEST

START_TEST(too_many_are_too_many)
{
	struct view v = { .source = "/a", .target = "/a" };

	for (size_t i = 0; i < VIEWS_MAX; i++)
		ck_assert_int_eq(views_add(&views, &v), 0);
	ck_assert_int_eq(views_add(&views, &v), -E2BIG);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("launch_views");
	TCase *t = tcase_create("settle");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, NULL, drop_views);
	tcase_add_test(t, what_lies_below_is_told_by_whole_names);
	tcase_add_test(t, mounts_that_share_nothing_stay_as_they_were_said);
	tcase_add_test(t, who_stands_in_another_is_mounted_after_it);
	tcase_add_test(t, what_lies_between_becomes_a_mount);
	tcase_add_test(t, what_lies_between_and_is_a_mount_stays_the_one_it_is);
	tcase_add_test(t, what_lies_between_can_be_written_and_starts_nothing_elsewhere);
	tcase_add_test(t, nothing_is_moved_within_what_is_read_only);
	tcase_add_test(t, a_writable_directory_in_a_program_s_starts_none);
	tcase_add_test(t, a_writable_directory_in_its_own_place_is_no_program_s);
	tcase_add_test(t, what_can_be_written_elsewhere_starts_nothing);
	tcase_add_test(t, the_same_directory_twice_starts_nothing);
	tcase_add_test(t, the_system_is_never_writable);
	tcase_add_test(t, our_own_programs_are_read_only_where_somebody_works_on_them);
	tcase_add_test(t, a_directory_whose_programs_are_wanted_is_left_alone);
	tcase_add_test(t, too_many_are_too_many);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
