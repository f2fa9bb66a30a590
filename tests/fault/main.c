/*
 * fault KIND list        the calls of a launch of that kind: role, call, how often
 * fault KIND run [JOBS]  each of them made to fail in turn; a line of JSON for each
 * fault KIND one ROLE CALL NTH ERROR
 * fault kinds            their names, of those that this user can have
 *
 * As root the kinds without root run as nobody.
 */
#include "tests/fault/fault.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <seccomp.h>

#include "common/control.h"
#include "common/util.h"

#define NOBODY	 65534
#define JOBS_MAX 16

static const char role_letters[ROLE_MAX + 1] = "SVLHIR";

static const struct {
	int error;
	const char *name;
} errors[] = { { EPERM, "EPERM" }, { EINVAL, "EINVAL" }, { ENOMEM, "ENOMEM" },
	{ EINTR, "EINTR" }, { ENOSYS, "ENOSYS" } };

/* Of each, the roles whose calls are others than those of one further up. */
static const struct kind kinds[] = {
	{ "user", .profile = "native", .init = true, .roles = "SVLHIR" },
	{ "user-warm", .profile = "native", .init = true, .warm = true, .roles = "SL" },
	{ "user-first", .profile = "native", .init = true, .first = true, .roles = "S" },
	{ "user-own-network", .profile = "provider", .init = true, .roles = "I" },
	{ "user-bare", .profile = "broker", .roles = "SVLI" },
	{ "root", .profile = "native", .rooted = true, .init = true, .roles = "SVLHIR" },
	{ "root-warm", .profile = "native", .rooted = true, .init = true, .warm = true,
	    .roles = "SLH" },
	{ "root-first", .profile = "native", .rooted = true, .init = true, .first = true,
	    .roles = "S" },
	{ "user-stood", .profile = "native", .init = true, .warm = true, .stood = true,
	    .roles = "LI" },
	{ "root-stood", .profile = "native", .rooted = true, .init = true, .warm = true,
	    .stood = true, .roles = "SL" },
	{ "root-bare", .profile = "broker", .rooted = true, .roles = "SI" },
};

static void
print_string(FILE *f, const char *s)
{
	for (; *s != '\0'; s++)
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if ((unsigned char)*s < ' ')
			fprintf(f, "\\u%04x", *s);
		else
			fputc(*s, f);
}

static const char *
call_name(unsigned call)
{
	static char number[16];
	static char *name;

	free(name);
	name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)call);
	if (name != NULL)
		return name;
	snprintf(number, sizeof(number), "%u", call);
	return number;
}

static const char *
error_name(int error)
{
	for (size_t i = 0; i < countof(errors); i++)
		if (errors[i].error == error)
			return errors[i].name;
	return "";
}

/* One write, so that lines of several processes do not mix. */
static void
print_case(const struct fault *f, const struct outcome *o, const struct sight *s)
{
	static const char *const events[] = { "none", "unstarted", "refused", "exit", "loop" };
	char *line = NULL;
	size_t n = 0;
	FILE *m = open_memstream(&line, &n);

	fprintf(m,
	    "{\"role\": \"%c\", \"call\": \"%s\", \"nth\": %u, \"error\": \"%s\", "
	    "\"hit\": %s, \"late\": %s, \"ran\": %s, \"hung\": %s, \"event\": \"%s\", "
	    "\"layer\": \"%s\", \"told\": %d, \"status\": %d, \"why\": \"",
	    role_letters[f->role], call_name(f->call), f->nth, error_name(f->error),
	    s->hit ? "true" : "false", s->late ? "true" : "false", s->ran ? "true" : "false",
	    s->hung ? "true" : "false", events[o->event],
	    o->event == EVENT_UNSTARTED || o->event == EVENT_REFUSED ? layer_name(o->layer)
								     : "",
	    o->error, o->status);
	print_string(m, o->why);
	fprintf(m, "\", \"left\": \"");
	print_string(m, o->left);
	fprintf(m, "\"}\n");
	fclose(m);
	if (write(STDOUT_FILENO, line, n) != (ssize_t)n)
		_exit(1);
	free(line);
}

static struct outcome *
shared_outcome(void)
{
	void *p = mmap(NULL, sizeof(struct outcome), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

/* What a good launch calls: the most of a few, as the supervisor's loop is not always alike. */
static int
enumerate(const struct kind *k, struct sight *ret)
{
	static struct sight s;
	struct outcome *o = shared_outcome();
	const struct fault none = { 0 };

	memset(ret, 0, sizeof(*ret));
	for (int round = 0; round < 3; round++) {
		trace_run(k, &none, o, &s);
		if (o->event != EVENT_EXIT || o->status != 0 || !s.ran || o->left[0] != '\0') {
			print_case(&none, o, &s);
			return -1;
		}
		for (size_t r = 0; r < ROLE_MAX; r++)
			for (size_t c = 0; c < FAULT_CALLS; c++)
				if (s.count[r][c] > ret->count[r][c])
					ret->count[r][c] = s.count[r][c];
	}
	return 0;
}

/* Every `jobs`th case, from `job` on. */
static void
run_share(const struct kind *k, const struct sight *calls, unsigned job, unsigned jobs)
{
	struct outcome *o = shared_outcome();
	static struct sight s;
	unsigned i = 0;

	for (unsigned r = 0; r < ROLE_MAX; r++) {
		if (strchr(k->roles, role_letters[r]) == NULL)
			continue;
		for (unsigned c = 0; c < FAULT_CALLS; c++)
			for (unsigned n = 1; n <= calls->count[r][c]; n++)
				for (size_t e = 0; e < countof(errors); e++) {
					struct fault f = { r, c, n, errors[e].error };

					if (i++ % jobs != job)
						continue;
					trace_run(k, &f, o, &s);
					print_case(&f, o, &s);
				}
	}
}

static int
run_all(const struct kind *k, const struct sight *calls, unsigned jobs)
{
	int status, failed = 0;

	for (unsigned job = 0; job < jobs; job++) {
		pid_t pid = fork();

		if (pid < 0)
			abort();
		if (pid > 0)
			continue;
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		run_share(k, calls, job, jobs);
		_exit(0);
	}
	while (wait(&status) > 0)
		failed |= status;
	return failed != 0;
}

static void
list(const struct kind *k, const struct sight *calls)
{
	for (unsigned r = 0; r < ROLE_MAX; r++)
		for (unsigned c = 0; c < FAULT_CALLS; c++)
			if (calls->count[r][c] > 0 && strchr(k->roles, role_letters[r]) != NULL)
				printf("%c %s %u\n", role_letters[r], call_name(c),
				    calls->count[r][c]);
}

static int
run_one(const struct kind *k, char **argv)
{
	const char *role = strchr(role_letters, argv[0][0]);
	struct outcome *o = shared_outcome();
	static struct sight s;
	struct fault f = { 0 };

	if (role == NULL)
		return 2;
	f.role = (enum role)(role - role_letters);
	f.call = (unsigned)seccomp_syscall_resolve_name(argv[1]);
	if (isdigit((unsigned char)argv[1][0]))
		f.call = (unsigned)strtoul(argv[1], NULL, 10);
	f.nth = (unsigned)strtoul(argv[2], NULL, 10);
	for (size_t i = 0; i < countof(errors); i++)
		if (strcmp(errors[i].name, argv[3]) == 0)
			f.error = errors[i].error;
	trace_run(k, &f, o, &s);
	print_case(&f, o, &s);
	return 0;
}

static int
become_nobody(void)
{
	return setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
	       setresuid(NOBODY, NOBODY, NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0;
}

int
main(int argc, char **argv)
{
	static struct sight calls;
	const struct kind *k = NULL;
	unsigned long jobs = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;

	for (size_t i = 0; i < countof(kinds); i++) {
		if (argc == 2 && (!kinds[i].rooted || geteuid() == 0))
			puts(kinds[i].name);
		if (argc > 2 && strcmp(argv[1], kinds[i].name) == 0)
			k = &kinds[i];
	}
	if (k == NULL)
		return argc == 2 ? 0 : 2;
	if (!k->rooted && geteuid() == 0 && become_nobody()) {
		perror("nobody");
		return 1;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (subject_prepare(k) < 0)
		return 1;
	if (strcmp(argv[2], "one") == 0)
		return argc == 7 ? run_one(k, argv + 3) : 2;
	if (enumerate(k, &calls) < 0)
		return 1;
	if (strcmp(argv[2], "list") == 0)
		list(k, &calls);
	else if (strcmp(argv[2], "run") == 0 && jobs >= 1 && jobs <= JOBS_MAX)
		return run_all(k, &calls, (unsigned)jobs);
	else
		return 2;
	return 0;
}
