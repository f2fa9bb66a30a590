#include "tests/fault/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#include "common/util.h"

#define TASKS_MAX 32
#define HANG_S	  20

/* A process that is traced. */
struct task {
	pid_t pid;
	enum role role;
	bool known;    /* `role` is */
	bool failing;  /* in the call that is to fail */
	bool over;     /* past its set-up */
	uint64_t call; /* that it is in */
};

static struct {
	const struct fault *fault;
	struct sight *sight;
	const struct outcome *outcome;
	bool stood;
	unsigned waiting; /* 1 << role, of those that have come to wait for their order */
	int wake_fd;
	struct task tasks[TASKS_MAX];
	uint32_t seen[ROLE_MAX][FAULT_CALLS];
} t;

static volatile sig_atomic_t alarmed;

static struct task *
task_of(pid_t pid)
{
	struct task *free_one = NULL;

	for (size_t i = 0; i < TASKS_MAX; i++) {
		if (t.tasks[i].pid == pid)
			return &t.tasks[i];
		if (t.tasks[i].pid == 0)
			free_one = &t.tasks[i];
	}
	if (free_one == NULL)
		abort();
	*free_one = (struct task){ .pid = pid };
	return free_one;
}

/* Only who is to fail, and only until then, is stopped at each call: the rest costs nothing. */
static void
go_on(const struct task *k, int signo)
{
	const struct fault *f = t.fault;
	bool calls =
	    f->error == 0 ? !k->over : k->failing || (!t.sight->hit && k->role == f->role);

	calls = calls || (t.stood && !t.outcome->begun && k->role != ROLE_SUPERVISOR);
	ptrace(calls ? PTRACE_SYSCALL : PTRACE_CONT, k->pid, 0, signo);
}

/* ---- calls ---- */

/* What cannot fail, by the manual, or does not come back; brk() has no errors to return. */
static bool
is_infallible(uint64_t call)
{
	static const uint16_t calls[] = { SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_umask,
		SYS_brk, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getuid, SYS_geteuid,
		SYS_getgid, SYS_getegid };

	for (size_t i = 0; i < countof(calls); i++)
		if (calls[i] == call)
			return true;
	return call >= FAULT_CALLS;
}

/*
 * The call becomes one that every list allows and that does nothing.  A close() always closes,
 * whatever it says: it is made.
 */
static void
inject(struct task *k)
{
	k->failing = true;
	t.sight->hit = true;
	t.sight->late = t.sight->ran;
	if (k->call != SYS_close)
		ptrace(
		    PTRACE_POKEUSER, k->pid, offsetof(struct user, regs.orig_rax), SYS_getpid);
}

/* Launcher and pid 1 each receive one message of the kind, and that is their order. */
static void
note_wait(const struct task *k)
{
	const unsigned both = 1u << ROLE_LAUNCHER | 1u << ROLE_INIT;

	if (!t.stood || t.outcome->begun || k->call != SYS_recvmsg ||
	    (1u << k->role & both) == 0)
		return;
	t.waiting |= 1u << k->role;
	if (t.waiting == both && write(t.wake_fd, "", 1) != 1)
		abort();
}

static void
on_enter(struct task *k, const struct ptrace_syscall_info *info)
{
	const struct fault *f = t.fault;

	k->call = info->entry.nr;
	note_wait(k);
	if (!t.outcome->begun || t.outcome->told || is_infallible(k->call))
		return;
	t.seen[k->role][k->call]++;
	t.sight->count[k->role][k->call]++;
	if (f->error != 0 && !t.sight->hit && k->role == f->role && k->call == f->call &&
	    t.seen[k->role][k->call] == f->nth)
		inject(k);
}

static void
on_leave(struct task *k)
{
	if (k->failing)
		ptrace(PTRACE_POKEUSER, k->pid, offsetof(struct user, regs.rax),
		    (long)-t.fault->error);
	k->failing = false;
}

static void
on_call(struct task *k)
{
	struct ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, k->pid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		on_enter(k, &info);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		on_leave(k);
}

/* ---- processes ---- */

static long
register_of(const struct task *k, size_t offset)
{
	return ptrace(PTRACE_PEEKUSER, k->pid, offset, 0);
}

/*
 * By the call that it comes back from, as a copy of its parent: who was killed in that call says
 * nothing of a child any more.
 */
static enum role
birth_role(const struct task *k)
{
	long flags = register_of(k, offsetof(struct user, regs.rdi));

	if (register_of(k, offsetof(struct user, regs.orig_rax)) != SYS_clone3)
		return ROLE_SPAWN;
	errno = 0;
	flags = ptrace(PTRACE_PEEKDATA, k->pid, flags, 0);
	if (errno != 0)
		return ROLE_RUNTIME; /* pid 1 has made its memory its own */
	return flags & CLONE_PARENT  ? ROLE_INIT
	       : flags & CLONE_PIDFD ? ROLE_RUNTIME
				     : ROLE_HELPER;
}

static void
on_exec(struct task *k)
{
	if (k->role == ROLE_SPAWN)
		k->role = ROLE_LAUNCHER;
	else if (k->role == ROLE_INIT || k->role == ROLE_RUNTIME)
		t.sight->ran = t.sight->ran || !t.outcome->told;
	k->over = k->role == ROLE_RUNTIME || k->role == ROLE_INIT;
}

static void
on_stop(struct task *k, int status)
{
	int signo = WSTOPSIG(status), event = status >> 16;

	if (!k->known) {
		k->known = true;
		k->role = birth_role(k);
	}
	if (signo == (SIGTRAP | 0x80))
		on_call(k);
	else if (event == PTRACE_EVENT_EXEC)
		on_exec(k);
	go_on(k, event != 0 || signo == (SIGTRAP | 0x80) ? 0 : signo);
}

static void
kill_tasks(void)
{
	for (size_t i = 0; i < TASKS_MAX; i++)
		if (t.tasks[i].pid != 0)
			kill(t.tasks[i].pid, SIGKILL);
}

static void
on_alarm(int signo)
{
	(void)signo;
	alarmed = 1;
}

/* Until nobody is left. */
static void
follow(void)
{
	int status;
	pid_t pid;

	for (;;) {
		pid = waitpid(-1, &status, __WALL);
		if (pid < 0 && errno == ECHILD)
			return;
		if (alarmed) {
			alarmed = 0;
			t.sight->hung = true;
			kill_tasks();
		}
		if (pid < 0)
			continue;
		if (WIFSTOPPED(status)) {
			on_stop(task_of(pid), status);
			continue;
		}
		task_of(pid)->pid = 0;
	}
}

void
trace_run(
    const struct kind *k, const struct fault *f, struct outcome *outcome, struct sight *ret)
{
	struct sigaction on_time = { .sa_handler = on_alarm };
	int gate[2], options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
			       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
	struct task *subject;
	pid_t pid;
	char byte;

	memset(&t, 0, sizeof(t));
	memset(ret, 0, sizeof(*ret));
	memset(outcome, 0, sizeof(*outcome));
	t.fault = f;
	t.sight = ret;
	t.outcome = outcome;
	t.stood = k->stood;
	if (pipe2(gate, O_CLOEXEC) < 0)
		abort();
	pid = fork();
	if (pid < 0)
		abort();
	if (pid == 0) {
		close(gate[1]);
		if (read(gate[0], &byte, 1) != 1)
			_exit(1);
		/* An error number makes no difference to what is left by others. */
		subject_run(k, f->role == ROLE_SUPERVISOR || f->error == ENOMEM, gate[0],
		    outcome);
	}
	close(gate[0]);
	subject = task_of(pid);
	subject->known = true;
	sigaction(SIGALRM, &on_time, NULL);
	alarmed = 0;
	alarm(HANG_S);
	if (ptrace(PTRACE_SEIZE, pid, 0, options) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0 || write(gate[1], "", 1) != 1)
		abort();
	t.wake_fd = gate[1];
	follow();
	close(gate[1]);
	alarm(0);
}
