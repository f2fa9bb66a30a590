#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/kernel.h"
#include "worker/stop.h"
#include "worker/text.h"
#include "worker/worker.h"

#define ARGS_MAX 4096u

static const char *
env_path(const struct plan *p)
{
	for (uint32_t i = 0; i < p->h->envc; i++) {
		const char *v = plan_string(p, p->env[i]);

		if (strncmp(v, "PATH=", 5) == 0)
			return v + 5;
	}
	return "/usr/bin:/bin";
}

/* Returns 0 or the errno that says best why `path` cannot be run. */
static int
runnable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

/*
 * The program is looked for before the filter is loaded, so that the filter need allow
 * exactly one exec and nothing around it.
 */
static const char *
program_find(const struct plan *p)
{
	static char path[4096];
	const char *name = plan_string(p, p->argv[0]), *dir = env_path(p);
	int error = ENOENT, e;
	size_t n;

	if (strchr(name, '/') != NULL) {
		e = runnable(name);
		if (e != 0)
			die(LAYER_EXEC, e);
		return name;
	}
	for (; *dir != '\0'; dir += n + (dir[n] == ':')) {
		struct text t = TEXT(path);

		n = strcspn(dir, ":");
		text_add(&t, dir, n);
		text_add_string(&t, "/");
		text_add_string(&t, name);
		if (n == 0 || t.full)
			continue;
		e = runnable(path);
		if (e == 0)
			return path;
		if (e == EACCES)
			error = e;
	}
	die(LAYER_EXEC, error);
}

static char **
vector(const struct plan *p, const uint32_t *offsets, uint32_t count, char **out)
{
	for (uint32_t i = 0; i < count; i++)
		out[i] = (char *)(uintptr_t)plan_string(p, offsets[i]);
	out[count] = NULL;
	return out;
}

void
program_enter(const struct plan *p, int launch_fd)
{
	static char *argv[ARGS_MAX + 1], *env[ARGS_MAX + 1];
	const char *path;
	int listener;
	char byte;

	if (p->h->argc > ARGS_MAX || p->h->envc > ARGS_MAX)
		die(LAYER_PLAN, E2BIG);
	vector(p, p->argv, p->h->argc, argv);
	vector(p, p->env, p->h->envc, env);
	/* A session of its own, so that its process groups are its own too; pid 1 has one. */
	if (p->h->flags & PLAN_INIT && setsid() < 0)
		die(LAYER_EXEC, errno);
	confine_descriptors(p);
	if (chdir(plan_string(p, p->h->cwd)) < 0)
		die(LAYER_EXEC, errno);
	path = program_find(p);
	/* The supervisor is about to fetch a descriptor from this process. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		die(LAYER_SECCOMP, errno);
	STOP_POINT("program.before_filter");
	listener = confine_filter(p);
	STOP_POINT("program.after_filter");
	report(STAGE_LISTENER, listener, -1);
	if (read(launch_fd, &byte, 1) != 1)
		_exit(1);
	STOP_POINT("program.before_exec");
	report(STAGE_EXEC, 0, -1);
	STOP_POINT("program.after_exec_report");
	execve(path, argv, env);
	die(LAYER_EXEC, errno);
}
