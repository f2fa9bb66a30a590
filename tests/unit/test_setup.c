/* setup: what a command line means for a private run (D-17). */
#include "supervisor/setup.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"
#include "supervisor/child_env.h"

static struct options o;
static struct setup s;
static char err[CONF_ERROR_MAX];

static int
parse(enum command command, const char *const *words)
{
	static char *argv[32];
	char error[OPTIONS_ERROR_MAX];
	int n = 0;

	options_finish(&o);
	setup_finish(&s);
	for (; words[n]; n++)
		argv[n] = (char *)(uintptr_t)words[n];
	ck_assert_msg(options_parse(command, n, argv, &o, error) == 0, "%s", error);
	return setup_private(command, &o, &s, err);
}

#define PARSE(command, ...)                                                                    \
	parse(COMMAND_##command, (const char *const[]){ #command, __VA_ARGS__, NULL })

static void
setup(void)
{
	unsetenv("CAISSON_CONFIG");
	unsetenv("CAISSON_STATE");
	memset(&o, 0, sizeof(o));
	memset(&s, 0, sizeof(s));
}

static void
teardown(void)
{
	options_finish(&o);
	setup_finish(&s);
}

START_TEST(without_a_file_the_command_is_the_agent)
{
	const struct passwd *pw = getpwuid(geteuid());
	char *cwd = realpath(".", NULL);

	ck_assert_msg(PARSE(run, "--", "/usr/bin/python3", "/app/x.py") == 0, "%s", err);
	ck_assert_str_eq(s.config.namespace, "default");
	ck_assert_uint_eq(s.config.runtimes.n, 1);
	ck_assert_str_eq(s.config.runtimes.v[0].id, "python3");
	ck_assert_str_eq(s.config.runtimes.v[0].command.v[1], "/app/x.py");
	if (pw) {
		ck_assert_str_eq(s.config.authority + strlen("human:"), pw->pw_name);
		ck_assert_str_eq(s.config.owner, s.config.authority);
	}
	ck_assert_uint_eq(s.config.providers.n, 1);
	ck_assert_str_eq(s.config.providers.v[0].root, cwd);
	ck_assert_uint_eq(s.config.tools.n, 9);
	ck_assert_int_eq(s.kind, operation_kind_turn);
	ck_assert_uint_eq(s.timeout_ms, 120000);
	free(cwd);
}
END_TEST

/* With no grant a runtime can compute and nothing else: TU-13 is the only one. */
START_TEST(the_grants_are_exactly_those_of_allow)
{
	const struct conf_grant *g;

	ck_assert_msg(PARSE(run, "--", "x") == 0, "%s", err);
	ck_assert_uint_eq(s.config.grants.n, 1);
	g = &s.config.grants.v[0];
	ck_assert_str_eq(g->id, "run");
	ck_assert_str_eq(g->subject, "agent:x");
	ck_assert_str_eq(g->issuer, s.config.authority);
	ck_assert_str_eq(g->capabilities.v[0].resource.namespace, "sharedos.execution");
	ck_assert_uint_eq(g->capabilities.v[0].resource.scope, scope_exact);
	ck_assert_str_eq(g->capabilities.v[0].resource.path.v[0], "x");
	ck_assert_str_eq(g->capabilities.v[0].actions.v[0], "invoke");
	ck_assert_uint_eq(g->capabilities.v[0].actions.n, 1);
	ck_assert_msg(
	    PARSE(run, "--allow", "read:./docs//notes/", "--allow", "list:.", "--", "x") == 0,
	    "%s", err);
	ck_assert_uint_eq(s.config.grants.n, 3);
	g = &s.config.grants.v[0];
	ck_assert_str_eq(g->id, "allow-1");
	ck_assert_str_eq(g->capabilities.v[0].resource.namespace, "workspace");
	ck_assert_uint_eq(g->capabilities.v[0].resource.scope, scope_descendants);
	ck_assert_uint_eq(g->capabilities.v[0].resource.path.n, 2);
	ck_assert_str_eq(g->capabilities.v[0].resource.path.v[1], "notes");
	ck_assert_str_eq(g->capabilities.v[0].actions.v[0], "read");
	ck_assert_uint_eq(s.config.grants.v[1].capabilities.v[0].resource.path.n, 0);
}
END_TEST

START_TEST(a_command_has_neither_tools_nor_a_limit_of_time)
{
	ck_assert_msg(PARSE(exec, "--memory", "1MiB", "--tmp", "64KiB", "--cpu", "50", "--pids",
			  "3", "--env", "A=b", "--ro", "/usr", "--rw", "/tmp:/data", "--app",
			  "/usr", "--profile", "native", "--", "id") == 0,
	    "%s", err);
	ck_assert_int_eq(s.kind, operation_kind_command);
	ck_assert_uint_eq(s.timeout_ms, 0);
	ck_assert_uint_eq(s.config.providers.n + s.config.tools.n, 0);
	ck_assert_uint_eq(s.config.grants.n, 1);
	ck_assert_uint_eq(s.config.runtimes.v[0].memory, 1u << 20);
	ck_assert_uint_eq(s.config.runtimes.v[0].tmp, 64u << 10);
	ck_assert_uint_eq(s.config.runtimes.v[0].cpu, 50);
	ck_assert_uint_eq(s.config.runtimes.v[0].pids, 3);
	ck_assert_str_eq(s.config.runtimes.v[0].profile, "native");
	ck_assert_str_eq(s.config.runtimes.v[0].app, "/usr");
	ck_assert_str_eq(s.config.runtimes.v[0].mounts.v[0].target, "/usr");
	ck_assert(!s.config.runtimes.v[0].mounts.v[0].writable);
	ck_assert_str_eq(s.config.runtimes.v[0].mounts.v[1].target, "/data");
	ck_assert(s.config.runtimes.v[0].mounts.v[1].writable);
	ck_assert_msg(PARSE(exec, "--timeout", "250ms", "--", "id") == 0, "%s", err);
	ck_assert_uint_eq(s.timeout_ms, 250);
}
END_TEST

static char file[64];

static void
write_file(const char *text)
{
	int fd;

	strlcpy(file, "/tmp/test_setup-XXXXXX", sizeof(file));
	fd = mkstemp(file);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

START_TEST(with_a_file_the_grants_are_its_and_one_runtime_is_chosen)
{
	write_file(
	    "version: 1\nlimits: { turn_timeout: 3s }\n"
	    "runtimes: [{ id: a, command: [x] }, { id: b, command: [y] }]\n"
	    "grants: [{ id: run, subject: agent:b, issuer: human:operator, namespace: default, "
	    "capabilities: [{ resource: { namespace: w, path: ., scope: exact }, "
	    "actions: [read] }] }]\n");
	ck_assert_msg(PARSE(run, "-c", file, "--runtime", "b") == 0, "%s", err);
	ck_assert_uint_eq(s.config.runtimes.n, 1);
	ck_assert_str_eq(s.config.runtimes.v[0].id, "b");
	ck_assert_uint_eq(s.timeout_ms, 3000);
	ck_assert_uint_eq(s.config.grants.n, 2);
	/* The file may use the name of the implicit one. */
	ck_assert_str_eq(s.config.grants.v[1].id, "run-2");
	ck_assert_str_eq(s.config.grants.v[1].subject, "agent:b");
	ck_assert_str_eq(s.config.grants.v[1].issuer, "human:operator");
	ck_assert_int_lt(PARSE(run, "-c", file), 0);
	ck_assert_msg(PARSE(run, "-c", file, "--", "/bin/z") == 0, "%s", err);
	ck_assert_str_eq(s.config.runtimes.v[0].id, "z");
	unlink(file);
}
END_TEST

static char *const *
find(char *const *env, const char *text)
{
	for (; *env; env++)
		if (!strcmp(*env, text))
			return env;
	return NULL;
}

START_TEST(an_environment_begins_with_nothing)
{
	static char *const said[] = { (char *)(uintptr_t) "HOME=/a",
		(char *)(uintptr_t) "HOME=/b", (char *)(uintptr_t) "CAISSON_LINK_FD=9",
		(char *)(uintptr_t) "TEST_SETUP", (char *)(uintptr_t) "TEST_SETUP_UNSET" };
	struct conf_words words = { (char **)(uintptr_t)said, countof(said) };
	char **env;
	size_t n;

	setenv("TEST_SETUP", "value", 1);
	setenv("LD_PRELOAD_X", "x", 1);
	env = child_env_create(&words, true);
	ck_assert_ptr_nonnull(env);
	for (n = 0; env[n]; n++)
		;
	ck_assert_uint_eq(n, 5);
	ck_assert_ptr_nonnull(find(env, "PATH=/usr/local/bin:/usr/bin:/bin"));
	ck_assert_ptr_nonnull(find(env, "LANG=C.UTF-8"));
	ck_assert_ptr_nonnull(find(env, "HOME=/b"));
	ck_assert_ptr_nonnull(find(env, "TEST_SETUP=value"));
	ck_assert_ptr_nonnull(find(env, "CAISSON_LINK_FD=3"));
	child_env_destroy(env);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("setup");
	TCase *tc = tcase_create("a private run");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, without_a_file_the_command_is_the_agent);
	tcase_add_test(tc, the_grants_are_exactly_those_of_allow);
	tcase_add_test(tc, a_command_has_neither_tools_nor_a_limit_of_time);
	tcase_add_test(tc, with_a_file_the_grants_are_its_and_one_runtime_is_chosen);
	tcase_add_test(tc, an_environment_begins_with_nothing);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
