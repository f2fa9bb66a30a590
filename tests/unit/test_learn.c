/*
 * learn: its filter beside that of its base, its answers, and its proposals, which are read back
 * as configurations and whose filters are looked at.
 */
#include "supervisor/learn.h"

#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "common/control.h"
#include "common/util.h"
#include "supervisor/config.h"
#include "supervisor/profiles.h"
#include "supervisor/profiles_rules.h"
#include "tests/unit/profiles_oracle.h"

static const char *const bases[] = { "native", "interpreter", "jit" };
static const struct exit_facts ended_well = { .kind = EXIT_EXITED };

static struct learn *
learn_on(const char *base)
{
	struct learn *l;

	ck_assert_int_eq(learn_create(profile_named(base), profile_named(base), &l), 0);
	return l;
}

/* Does `p` let the call pass, with arguments of 0? */
static uint32_t
said_by(const struct profile *p, uint32_t nr, uint32_t arch, uint64_t argument)
{
	struct seccomp_data d = { .nr = (int)nr, .arch = arch };
	const struct sock_filter *f;
	size_t len;

	for (size_t i = 0; i < 6; i++)
		d.args[i] = argument;
	ck_assert_int_eq(profile_filter(p, false, &f, &len), 0);
	return interpret(f, len, &d);
}

/* The program makes the call: what its caller sees, or 1: it ended. */
static int32_t
call(struct learn *l, const char *name)
{
	int32_t error = 0;
	uint32_t flags;
	int nr = profile_syscall_number(name);

	ck_assert_int_ge(nr, 0);
	return learn_answer(l, (uint32_t)nr, AUDIT_ARCH_X86_64, &flags, &error) ? error : 1;
}

static char *
propose(struct learn *l, const struct conf_profile *onto)
{
	char *const command[] = { (char *)(uintptr_t) "a\033[2Jb", (char *)(uintptr_t) "c\nd", NULL };
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	learn_on_exit(l, &ended_well);
	learn_propose(f, l, onto, command);
	fclose(f);
	ck_assert_ptr_null(strchr(text, '\033'));
	ck_assert_ptr_nonnull(strstr(text, "# Of: a?[2Jb c?d \n"));
	return text;
}

static void
read_back(const char *text, struct conf_namespace *ret)
{
	char err[CONF_ERROR_MAX];

	if (conf_read("proposal.yaml", text, strlen(text), ret, err) < 0)
		ck_abort_msg("%s\n%s", err, text);
	ck_assert_uint_eq(ret->profiles.n, 1);
}

START_TEST(its_filter_never_lets_pass_what_its_base_does_not)
{
	static const uint64_t edges[] = { 0, 1, 2, 3, 0x5401, 0x5412, 0x7e020000, 04000, 02000,
		0x80000000, 0xffffffff, 0x100000000, UINT64_MAX };
	const struct profile *base = profile_named(bases[_i]);
	struct learn *l = learn_on(bases[_i]);
	size_t asked = 0;

	for (uint32_t nr = 0; nr < LEARN_CALLS; nr++)
		for (size_t i = 0; i < countof(edges); i++) {
			uint32_t own = said_by(learn_profile(l), nr, AUDIT_ARCH_X86_64, edges[i]);
			uint32_t of_base = said_by(base, nr, AUDIT_ARCH_X86_64, edges[i]);

			if (own != SECCOMP_RET_USER_NOTIF)
				ck_assert_msg(own == of_base, "call %u", nr);
			else
				asked += of_base != own;
			ck_assert_uint_eq(said_by(learn_profile(l), nr, AUDIT_ARCH_I386, edges[i]),
			    SECCOMP_RET_USER_NOTIF);
			ck_assert_uint_eq(said_by(learn_profile(l), nr | 0x40000000,
					      AUDIT_ARCH_X86_64, edges[i]),
			    SECCOMP_RET_USER_NOTIF);
		}
	ck_assert_uint_gt(asked, 1000);
	learn_destroy(l);
}
END_TEST

/* An oracle of its own: the rows of profiles_never.def. */
static bool
is_never(const char *name)
{
	static const char *const names[] = {
#define NEEDED(call, why)
#define NEVER(call, why) #call,
#define NEVER_IF(call, arg, bits, want, why) #call,
#define NEVER_IF2(call, arg, bits, want, arg2, bits2, want2, why) #call,
#include "supervisor/profiles_never.def"
	};

	for (size_t i = 0; i < countof(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

START_TEST(what_is_never_allowed_never_goes_on)
{
	const struct profile *base = profile_named(bases[_i]);
	struct learn *l = learn_on(bases[_i]);
	uint32_t flags;
	int32_t error;
	size_t ended = 0;

	for (uint32_t nr = 0; nr < 2 * LEARN_CALLS; nr++) {
		const char *name = profile_syscall_name(AUDIT_ARCH_X86_64, nr);
		bool never = strcmp(name, "?") == 0 || is_never(name);

		ck_assert(!learn_answer(l, nr, AUDIT_ARCH_I386, &flags, &error));
		ck_assert(!learn_answer(l, nr | 0x40000000, AUDIT_ARCH_X86_64, &flags, &error));
		/* The filter asks about nothing of these that could be it. */
		if (!never || said_by(base, nr, AUDIT_ARCH_X86_64, 0) != SECCOMP_RET_USER_NOTIF)
			continue;
		ck_assert_msg(!learn_answer(l, nr, AUDIT_ARCH_X86_64, &flags, &error), "%s", name);
		ended++;
	}
	ck_assert_uint_gt(ended, 1500);
	ck_assert_int_eq(call(l, "clone"), 1);
	ck_assert_int_eq(call(l, "prctl"), 1);
	ck_assert_int_eq(call(l, "ioctl"), 1);
	ck_assert_int_eq(call(l, "socket"), 1);
	ck_assert_int_eq(call(l, "openat"), 1);
	ck_assert_int_eq(call(l, "memfd_create"), -ENOSYS);
	ck_assert_int_eq(call(l, "fcntl"), 0);
	ck_assert_int_eq(call(l, "chmod"), 0);
	ck_assert_int_eq(call(l, "mlockall"), 0);
	learn_destroy(l);
}
END_TEST

START_TEST(an_errno_of_the_base_stays_and_is_not_proposed)
{
	struct learn *l = learn_on("interpreter");
	uint32_t flags = 77;
	int32_t error = 0;
	char *text;

	ck_assert(learn_answer(l, SYS_sched_setscheduler, AUDIT_ARCH_X86_64, &flags, &error));
	ck_assert_uint_eq(flags, 0);
	ck_assert_int_eq(error, -EPERM);
	text = propose(l, NULL);
	ck_assert_ptr_nonnull(strstr(text,
	    "#   { name: sched_setscheduler, action: allow }    # got EPERM\n"));
	ck_assert_ptr_null(strstr(text, "- { name: sched_setscheduler"));
	free(text);
	learn_destroy(l);
}
END_TEST

/* Of every third call of a list, or the like. */
static bool
in_sample(uint32_t nr, unsigned sample)
{
	return (nr * 2654435761u >> 8) % 5 < sample;
}

START_TEST(a_proposal_allows_what_was_used_and_ends_what_was_not)
{
	const char *base = bases[(unsigned)_i % 3];
	unsigned sample = (unsigned)_i / 3 * 2;
	struct learn *l = learn_on(base);
	struct conf_namespace c;
	const struct profile *p;
	uint32_t flags;
	int32_t error;
	char *text;

	for (uint32_t nr = 0; nr < LEARN_CALLS; nr++)
		if (in_sample(nr, sample))
			learn_answer(l, nr, AUDIT_ARCH_X86_64, &flags, &error);
	text = propose(l, NULL);
	read_back(text, &c);
	p = conf_profile_named(&c, LEARN_PROFILE);
	ck_assert_ptr_nonnull(p);
	ck_assert_str_eq(p->base->name, base);
	for (uint32_t nr = 0; nr < LEARN_CALLS; nr++) {
		uint32_t was = said_by(profile_named(base), nr, AUDIT_ARCH_X86_64, 0);
		uint32_t is = said_by(p, nr, AUDIT_ARCH_X86_64, 0);
		bool asked = said_by(learn_profile(l), nr, AUDIT_ARCH_X86_64, 0) ==
		    SECCOMP_RET_USER_NOTIF;

		if (!asked || (was & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
			ck_assert_uint_eq(is, was);
		else if (was == SECCOMP_RET_ALLOW)
			ck_assert_uint_eq(is, in_sample(nr, sample) ? was : SECCOMP_RET_USER_NOTIF);
		else if (!in_sample(nr, sample) || learn_call(l, nr)->never)
			ck_assert_uint_eq(is, SECCOMP_RET_USER_NOTIF);
		else if (learn_call(l, nr)->class == LEARN_NEW)
			ck_assert_uint_eq(is, SECCOMP_RET_ALLOW);
	}
	conf_finish(&c);
	free(text);
	learn_destroy(l);
}
END_TEST

START_TEST(a_second_run_adds_to_the_first_and_keeps_what_was_decided)
{
	static const char before[] =
	    "version: 1\n"
	    "profiles:\n"
	    "  - id: learned\n"
	    "    base: interpreter\n"
	    "    memory: 64MiB\n"
	    "    mdwe: false\n"
	    "    syscalls:\n"
	    "      - { name: mlockall, action: allow }\n"
	    "      - { name: link, action: end }\n"
	    "      - { name: rename, action: end }\n"
	    "      - { name: sendto, action: end }\n"
	    "      - { name: dup3, action: end }\n"
	    "      - { name: symlink, action: EPERM }\n"
	    "      - { name: kill, action: allow, when: [{ argument: 1, masked: 0x7f, equals: 0 }] }\n";
	struct conf_namespace first, second;
	const struct profile *old, *new;
	struct learn *l;
	char *text;

	read_back(before, &first);
	old = conf_profile_named(&first, LEARN_PROFILE);
	ck_assert_int_eq(learn_create(old, old->base, &l), 0);
	ck_assert(!learn_profile(l)->mdwe);
	ck_assert_int_eq(call(l, "link"), 0);
	ck_assert_int_eq(call(l, "dup3"), 0);
	ck_assert_int_eq(call(l, "sendto"), 0);
	ck_assert_int_eq(call(l, "signalfd"), 0);
	ck_assert_int_eq(call(l, "symlink"), -EPERM);
	text = propose(l, &first.profiles.v[0]);
	ck_assert_ptr_nonnull(strstr(text, "    memory: 64MiB\n"));
	read_back(text, &second);
	new = conf_profile_named(&second, LEARN_PROFILE);
	ck_assert(!new->mdwe);
	ck_assert_uint_eq(new->memory_bytes, 64 << 20);
	for (uint32_t nr = 0; nr < LEARN_CALLS; nr++) {
		bool added = nr == SYS_link || nr == SYS_dup3 || nr == SYS_sendto || nr == SYS_signalfd;

		for (uint64_t argument = 0; argument < 2; argument++)
			ck_assert_uint_eq(said_by(new, nr, AUDIT_ARCH_X86_64, argument),
			    added ? (nr == SYS_sendto && argument == 1 ?
						    SECCOMP_RET_ERRNO | EOPNOTSUPP :
						    SECCOMP_RET_ALLOW) :
				    said_by(old, nr, AUDIT_ARCH_X86_64, argument));
	}
	free(text);
	conf_finish(&first);
	learn_destroy(l);
	conf_finish(&second);
}
END_TEST

START_TEST(an_empty_run_fits_into_what_a_profile_may_say)
{
	struct learn *l = learn_on(bases[_i]);
	char *text = propose(l, NULL);
	struct conf_namespace c;

	read_back(text, &c);
	ck_assert_uint_gt(c.profiles.v[0].syscalls.n, 100);
	/* Of 256, with room for what a program may add. */
	ck_assert_uint_lt(c.profiles.v[0].syscalls.n, 200);
	conf_finish(&c);
	free(text);
	learn_destroy(l);
}
END_TEST

static char *
propose_ended(const struct exit_facts *exit)
{
	char *const command[] = { NULL };
	struct learn *l = learn_on("interpreter");
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	ck_assert_ptr_null(learn_exit(l));
	learn_on_exit(l, exit);
	ck_assert_ptr_nonnull(learn_exit(l));
	learn_propose(f, l, NULL, command);
	fclose(f);
	learn_destroy(l);
	return text;
}

START_TEST(how_it_ended_is_said)
{
	static const struct {
		struct exit_facts exit;
		const char *said; /* NULL: nothing */
	} table[] = {
		{ { .kind = EXIT_EXITED }, NULL },
		{ { .kind = EXIT_EXITED, .status = 3 }, "# It exited with status 3:" },
		{ { .kind = EXIT_SIGNALED, .status = 5 }, "# It died of signal 5:" },
		{ { .kind = EXIT_SIGNALED, .status = 9, .cause = ENDING_oom }, "# CUT SHORT: oom.\n" },
		{ { .kind = EXIT_SIGNALED, .status = 9, .cause = ENDING_seccomp, .syscall = SYS_ptrace,
		      .arch = AUDIT_ARCH_X86_64 },
		    "# CUT SHORT: it called ptrace, which no profile allows" },
		{ { .kind = EXIT_SIGNALED, .status = 9, .cause = ENDING_seccomp, .syscall = 20,
		      .arch = AUDIT_ARCH_I386 },
		    "# CUT SHORT: it called getpid of another architecture.\n" },
		{ { .kind = EXIT_SIGNALED, .status = 9, .cause = ENDING_seccomp, .syscall = 999,
		      .arch = AUDIT_ARCH_X86_64 },
		    "# CUT SHORT: it called number 999, of which nothing is known here.\n" },
	};

	for (size_t i = 0; i < countof(table); i++) {
		char *text = propose_ended(&table[i].exit);

		if (table[i].said != NULL)
			ck_assert_msg(strstr(text, table[i].said) != NULL, "%s", text);
		else
			ck_assert(strstr(text, "CUT SHORT") == NULL && strstr(text, "# It ") == NULL);
		free(text);
	}
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("learn");
	TCase *c = tcase_create("all");
	SRunner *runner;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, its_filter_never_lets_pass_what_its_base_does_not, 0, 3);
	tcase_add_loop_test(c, what_is_never_allowed_never_goes_on, 0, 3);
	tcase_add_test(c, an_errno_of_the_base_stays_and_is_not_proposed);
	tcase_add_loop_test(c, a_proposal_allows_what_was_used_and_ends_what_was_not, 0, 9);
	tcase_add_test(c, a_second_run_adds_to_the_first_and_keeps_what_was_decided);
	tcase_add_loop_test(c, an_empty_run_fits_into_what_a_profile_may_say, 0, 3);
	tcase_add_test(c, how_it_ended_is_said);
	suite_add_tcase(suite, c);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
