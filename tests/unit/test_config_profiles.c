/* config: profiles of the operator's, every mistake with its place, and what they become. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"
#include "supervisor/config.h"
#include "supervisor/profiles.h"
#include "supervisor/profiles_rules.h"

static struct conf_namespace c;
static char err[CONF_ERROR_MAX];

static int
parse(const char *text)
{
	conf_finish(&c);
	*err = '\0';
	return conf_read("/dir/t.yaml", text, strlen(text), &c, err);
}

static void
teardown(void)
{
	conf_finish(&c);
}

#define RULES(rules) \
	"version: 1\nprofiles:\n  - { id: p, base: native, syscalls: [" rules "] }\n"

static const struct mistake {
	const char *reason, *text, *expected;
} mistakes[] = {
	{ "a call that nobody knows",
	    RULES("{ name: opennat, action: allow }"),
	    "3:47: profiles[0].syscalls[0].name: \"opennat\" is no system call "
	    "that this libseccomp knows" },
	{ "a call newer than libseccomp",
	    RULES("{ name: statmount, action: EPERM }"),
	    "is no system call that this libseccomp knows" },
	{ "a call of other architectures",
	    RULES("{ name: socketcall, action: allow }"),
	    "\"socketcall\" is no system call of this architecture" },
	{ "an action that is none",
	    RULES("{ name: getuid, action: deny }"),
	    "3:63: profiles[0].syscalls[0].action: \"deny\" is none, expected "
	    "allow, end, base" },
	{ "an errno that is none",
	    RULES("{ name: getuid, action: EPERMM }"),
	    "\"EPERMM\" is none" },
	{ "what no profile may",
	    RULES("{ name: ptrace, action: allow }"),
	    "syscalls[0].action: no profile allows ptrace with these arguments, "
	    "as it reaches into other processes" },
	{ "io_uring",
	    RULES("{ name: io_uring_setup, action: allow }"),
	    "as what it does passes by every other rule" },
	{ "a new namespace",
	    RULES("{ name: clone, action: allow }"),
	    "no profile allows clone with these arguments" },
	{ "a new namespace among others",
	    RULES("{ name: clone, action: allow, when: [{ argument: 0, masked: "
	    "0x10000000, equals: 0 }] }"),
	    "no profile allows clone" },
	{ "a terminal typed into",
	    RULES("{ name: ioctl, action: allow, when: [{ argument: 1, equals: 0x5412 "
	    "}] }"),
	    "it types into a terminal" },
	{ "a terminal typed into by its low half",
	    RULES("{ name: ioctl, action: allow, when: [{ argument: 1, equals: "
	    "0x100005412 }] }"),
	    "equals: 0x100005412 never holds, as only 0xffffffff of it is "
	    "looked at" },
	{ "the high half of an int",
	    RULES("{ name: ioctl, action: allow, when: [{ argument: 1, masked: "
	    "0x100000000, equals: 0x100000000 }] }"),
	    "when[0].masked: 0x100000000 is not of this argument, expected 1 to "
	    "0xffffffff" },
	{ "a mask of nothing",
	    RULES("{ name: kill, action: allow, when: [{ argument: 1, masked: 0, "
	    "equals: 0 }] }"),
	    "masked: 0 is not of this argument" },
	{ "a set-uid file",
	    RULES("{ name: chmod, action: allow }"),
	    "no file becomes set-uid" },
	{ "a set-uid file by another flag",
	    RULES("{ name: open, action: allow, when: [{ argument: 1, masked: 0x40, "
	    "equals: 0 }] }"),
	    "no file becomes set-uid" },
	{ "the launch's own calls",
	    RULES("{ name: execve, action: end }"),
	    "execve stays as it is, as the launch itself uses it" },
	{ "a condition that is no condition",
	    RULES("{ name: kill, action: allow, when: [] }"),
	    "when: is empty, expected a condition" },
	{ "an argument that is not there",
	    RULES("{ name: kill, action: allow, when: [{ argument: 2, equals: 0 }] }"),
	    "argument: kill has 2, expected 0 to 1" },
	{ "a seventh argument",
	    RULES("{ name: mmap, action: allow, when: [{ argument: 6, equals: 0 }] }"),
	    "argument: is out of range, expected at most 0x5" },
	{ "a call without arguments",
	    RULES("{ name: getuid, action: allow, when: [{ argument: 0, equals: 0 }] "
	    "}"),
	    "when[0]: getuid has no argument to look at" },
	{ "an address",
	    RULES("{ name: kill, action: end }, { name: stat, action: allow, when: [{ "
	    "argument: 0, equals: 0x1000 }] }"),
	    "argument 0 is an address" },
	{ "two conditions for an argument",
	    RULES("{ name: kill, action: allow, when: [{ argument: 1, equals: 0 }, { "
	    "argument: 1, masked: 8, equals: 8 }] }"),
	    "when[1].argument: has two conditions" },
	{ "a comparison that libseccomp gets wrong",
	    RULES("{ name: kill, action: allow, when: [{ argument: 1, less: 9 }] }"),
	    "when[0].less: unknown key, expected one of argument, masked, "
	    "equals" },
	{ "bits outside their mask",
	    RULES("{ name: kill, action: allow, when: [{ argument: 1, masked: 1, "
	    "equals: 2 }] }"),
	    "equals: 0x2 never holds" },
	{ "a number that is none",
	    RULES("{ name: kill, action: allow, when: [{ argument: 1, equals: SIGKILL "
	    "}] }"),
	    "equals: is not a whole number, like 21505" },
	{ "a number too large",
	    RULES("{ name: kill, action: allow, when: [{ argument: 1, equals: "
	    "0x10000000000000000 }] }"),
	    "equals: is out of range" },
	{ "a rule twice",
	    RULES("{ name: getuid, action: allow }, { name: getuid, action: allow }"),
	    "syscalls[1]: getuid stands there twice" },
	{ "two actions",
	    RULES("{ name: getuid, action: EPERM }, { name: getuid, action: ENOSYS }"),
	    "getuid stands there with another action, too" },
	{ "with and without conditions",
	    RULES("{ name: kill, action: allow }, { name: kill, action: EPERM, when: "
	    "[{ argument: 1, equals: 9 }] }"),
	    "kill has a rule with and one without conditions" },
	{ "two actions in part",
	    RULES("{ name: kill, action: allow, when: [{ argument: 0, equals: 1 }] }, "
	    "{ name: kill, action: EPERM, when: [{ argument: 1, equals: 9 }] }"),
	    "kill has another action for calls that both rules mean" },
	{ "a part of the base",
	    RULES("{ name: kill, action: base }, { name: kill, action: EPERM, when: "
	    "[{ argument: 1, equals: 9 }] }"),
	    "kill takes a part of what its base says without conditions" },
	{ "a part of a rule of the base",
	    RULES("{ name: clone, action: base }, { name: clone, action: EPERM, when: "
	    "[{ argument: 0, equals: 0 }] }"),
	    "clone takes a part of what a rule of its base says" },
	{ "the base and all",
	    RULES("{ name: kill, action: base }, { name: kill, action: end }"),
	    "kill leaves nothing to its base" },
	{ "the base under a condition",
	    RULES("{ name: kill, action: base, when: [{ argument: 1, equals: 9 }] }"),
	    "when: is there beside action: base" },
	{ "a profile without a base",
	    "version: 1\nprofiles: [{ id: p }]\n",
	    "profiles[0]: base is missing" },
	{ "a base further down",
	    "version: 1\nprofiles: [{ id: p, base: q }, { id: q, base: jit }]\n",
	    "2:27: profiles[0].base: \"q\" is not there, expected native, "
	    "interpreter, jit, provider or a profile further up" },
	{ "a profile of Caisson's own programs",
	    "version: 1\nprofiles: [{ id: p, base: broker }]\n",
	    "\"broker\" is not there" },
	{ "the name of a built-in one",
	    "version: 1\nprofiles: [{ id: jit, base: native }]\n",
	    "profiles[0].id: jit is built in" },
	{ "an id that is none",
	    "version: 1\nprofiles: [{ id: \"a b\", base: native }]\n",
	    "profiles[0].id: expected a-z" },
	{ "a profile twice",
	    "version: 1\nprofiles: [{ id: p, base: native }, { id: p, base: jit "
	    "}]\n",
	    "profiles[1].id: \"p\" is also profiles[0].id" },
	{ "a layer that is none",
	    "version: 1\nprofiles: [{ id: p, base: native, optional: [magic] "
	    "}]\n",
	    "profiles[0].optional[0]: \"magic\" is no layer that may be absent" },
	{ "a layer that is needed",
	    "version: 1\nprofiles: [{ id: p, base: native, optional: [seccomp] "
	    "}]\n",
	    "\"seccomp\" is no layer that may be absent" },
	{ "a second and a half",
	    "version: 1\nprofiles: [{ id: p, base: native, cpu_time: 1500ms "
	    "}]\n",
	    "profiles[0].cpu_time: expected whole seconds" },
	{ "sockets where others are",
	    "version: 1\nprofiles: [{ id: p, base: native, network: shared, "
	    "syscalls: [{ name: socket, action: allow, when: [{ argument: 0, "
	    "equals: 2 }] }] }]\n",
	    "profiles[0].network: is shared and socket is allowed" },
	{ "a name for half of a pair where others are",
	    "version: 1\nprofiles: [{ id: p, base: native, syscalls: [{ name: bind, action: "
	    "allow }] }]\n",
	    "profiles[0].network: is shared and bind is allowed" },
	{ "a way to a name where others are, of its base's",
	    "version: 1\nprofiles: [{ id: p, base: native, network: own, syscalls: [{ name: "
	    "connect, action: allow }] }, { id: q, base: p, network: shared }]\n",
	    "profiles[1].network: is shared and connect is allowed" },
	{ "a profile's mount twice",
	    "version: 1\nprofiles: [{ id: p, base: native, mounts: [{ source: "
	    "/, target: /a }] }, { id: q, base: p, mounts: [{ source: /, "
	    "target: /a }] }]\n",
	    "profiles[1].mounts[0].target: is the place of a mount of the "
	    "profile p" },
	{ "a mount over the profile's",
	    "version: 1\nprofiles: [{ id: p, base: native, mounts: [{ source: "
	    "/, target: /a }] }]\nruntimes: [{ id: r, command: [x], profile: p, "
	    "mounts: [{ source: /, target: /a }] }]\n",
	    "runtimes[0].mounts[0].target: is the place of a mount of the "
	    "profile p" },
	{ "a profile for providers",
	    "version: 1\nprofiles: [{ id: p, base: provider }]\nruntimes: [{ "
	    "id: r, command: [x], profile: p }]\n",
	    "runtimes[0].profile: \"p\" is for providers" },
	{ "a provider's profile that is not there",
	    "version: 1\nproviders: [{ id: p, command: [x], profile: gone }]\n",
	    "providers[0].profile: \"gone\" is not there, expected native, "
	    "interpreter, jit, provider" },
};

START_TEST(every_mistake_is_refused_with_its_place)
{
	const struct mistake *m = &mistakes[_i];

	ck_assert_msg(parse(m->text) < 0, "%s: was read", m->reason);
	ck_assert_msg(strstr(err, m->expected), "%s: \"%s\" is not in \"%s\"", m->reason,
	    m->expected, err);
	ck_assert_msg(!strncmp(err, "/dir/t.yaml:", 12), "%s: %s", m->reason, err);
}
END_TEST

static const char whole[] =
    "version: 1\n"
    "profiles:\n"
    "  - id: web.1\n    base: jit\n    memory: 1GiB\n    pids: 40\n    cpu_time: 90s\n"
    "    optional: []\n    env: [A=b]\n    mounts: [{ source: ../y, target: /y }]\n"
    "    syscalls:\n"
    "      - { name: clone3, action: EPERM }\n      - { name: ioctl, action: base }\n"
    "      - { name: ioctl, action: allow, when: [{ argument: 1, equals: 0x8004667e }] }\n"
    "      - { name: openat, action: allow, when: [{ argument: 0, equals: -100 }, "
    "{ argument: 2, masked: 0x400040, equals: 0 }] }\n"
    "  - { id: tight, base: web.1, mdwe: true, network: own, open_files: 64, "
    "file_size: 1MiB, cpu: 50, tmp: 1MiB }\n";

START_TEST(a_profile_is_its_base_but_for_what_it_says)
{
	const struct profile *jit = profile_named("jit"), *web, *tight;
	const struct profile_rule *rules;
	size_t n, i, seen = 0;

	ck_assert_msg(parse(whole) == 0, "%s", err);
	web = conf_profile_named(&c, "web.1");
	tight = conf_profile_named(&c, "tight");
	ck_assert_ptr_eq(conf_profile_named(&c, "jit"), jit);
	ck_assert_ptr_null(conf_profile_named(&c, "broker"));
	ck_assert(web && tight);
	ck_assert_ptr_eq(tight->base, web);
	ck_assert(!web->mdwe && tight->mdwe);
	ck_assert_uint_eq(web->optional, 0);
	ck_assert_uint_eq(web->memory_bytes, 1u << 30);
	ck_assert_uint_eq(tight->memory_bytes, 1u << 30);
	ck_assert_uint_eq(web->tmp_bytes, jit->tmp_bytes);
	ck_assert_uint_eq(tight->tmp_bytes, 1u << 20);
	ck_assert_uint_eq(tight->cpu_seconds, 90);
	ck_assert_uint_eq(tight->cpu_percent, 50);
	ck_assert_uint_eq(tight->pids, 40);
	ck_assert_uint_eq(tight->open_files, 64);
	ck_assert_uint_eq(tight->file_bytes, 1u << 20);
	ck_assert_str_eq(web->mounts[0].source, "/dir/../y");
	ck_assert_uint_eq(tight->nmounts, 0);
	ck_assert_str_eq(web->env->v[0], "A=b");
	ck_assert_int_eq(profile_rules(tight, false, &rules, &n), 0);
	for (i = 0; i < n; i++)
		if (rules[i].nr == SYS_openat) {
			/* The kernel reads an int: its low half, whatever the other one is. */
			ck_assert_uint_eq(rules[i].when[0].value, 0xffffff9c);
			ck_assert_uint_eq(rules[i].when[0].mask, UINT32_MAX);
			seen++;
		}
	ck_assert_uint_eq(seen, 1);
}
END_TEST

static char *
show(void)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	ck_assert_ptr_nonnull(f);
	conf_show(f, &c);
	fclose(f);
	return text;
}

START_TEST(what_is_shown_reads_as_the_same)
{
	char *first, *second;

	ck_assert_msg(parse(whole) == 0, "%s", err);
	first = show();
	/* What a profile leaves to its base stays the base's. */
	ck_assert_ptr_null(strstr(first, "mdwe: false"));
	ck_assert_msg(parse(first) == 0, "%s", err);
	second = show();
	ck_assert_str_eq(first, second);
	free(first);
	free(second);
}
END_TEST

/* As many as one profile holds, each of its own: the filter still fits, and the next is refused. */
START_TEST(the_number_of_rules_is_bounded)
{
	char text[40000];
	int r;

	for (int n = 256; n <= 257; n++) {
		size_t at = (size_t)snprintf(text, sizeof(text), "version: 1\nprofiles:\n"
		    "  - id: p\n    base: native\n    syscalls:\n");

		for (int i = 0; i < n; i++)
			at += (size_t)snprintf(text + at, sizeof(text) - at,
			    "      - { name: mmap, action: allow, when: [{ argument: 1, equals: "
			    "0x%x00000%x }] }\n", i + 1, i);
		r = parse(text);
		if (n == 256)
			ck_assert_msg(r == 0, "%s", err);
		else
			ck_assert_ptr_nonnull(strstr(err, "syscalls: has 257 elements"));
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("config_profiles");
	TCase *t = tcase_create("profiles");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, NULL, teardown);
	tcase_add_loop_test(t, every_mistake_is_refused_with_its_place, 0, countof(mistakes));
	tcase_add_test(t, a_profile_is_its_base_but_for_what_it_says);
	tcase_add_test(t, what_is_shown_reads_as_the_same);
	tcase_add_test(t, the_number_of_rules_is_bounded);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
