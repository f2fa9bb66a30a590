/*
 * Programs to learn from: `learn_calls NAME`.  Each makes the calls that its name says, prints
 * what came of them, and exits with 0 if it got to its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static int
say(const char *what, long r)
{
	printf("%s %s\n", what, r >= 0 ? "ok" : strerrorname_np(errno));
	return 0;
}

/* On no list, and harmless. */
static int
extra(void)
{
	struct timespec t;

	say("sched_rr_get_interval", syscall(SYS_sched_rr_get_interval, 0, &t));
	return say("readahead", syscall(SYS_readahead, 0, 0L, 0L));
}

/* The base answers with an errno. */
static int
probes(void)
{
	say("memfd_create", syscall(SYS_memfd_create, "x", 0));
	return say("openat2", syscall(SYS_openat2, -1, "", NULL, 0L));
}

static int
beyond(void)
{
	struct f_owner_ex owner;

	return say("fcntl", fcntl(0, F_GETOWN_EX, &owner));
}

/* Allowed and never allowed are told apart by an argument. */
static int
ambiguous(void)
{
	return say("prctl", prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0));
}

static int
forbidden(void)
{
	return say("unshare", syscall(SYS_unshare, 0));
}

static int
forbidden_in_a_thread_of_a_child(void)
{
	pthread_t t;
	pid_t pid = fork();

	if (pid == 0) {
		pthread_create(&t, NULL, (void *(*)(void *))(void (*)(void))forbidden, NULL);
		pthread_join(t, NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return say("went on", 0);
}

static int
namespaces(void)
{
	return say("clone", syscall(SYS_clone, 0x10000000 | SIGCHLD, 0L, 0L, 0L, 0L));
}

static int
foreign(void)
{
#ifdef __x86_64__
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); /* getpid of i386 */
	return say("i386", r);
#else
	return 1;
#endif
}

static int
x32(void)
{
	return say("x32", syscall(0x40000000 | SYS_getppid));
}

static int
nameless(void)
{
	return say("nameless", syscall(999));
}

/* ---- many, at once, disturbed ---- */

static void *
many_calls(void *arg)
{
	long n = (long)arg;

	for (long i = 0; i < n; i++)
		if (syscall(SYS_getppid) < 0 || syscall(SYS_getuid) != 1000)
			exit(3);
	return NULL;
}

static int
many(void)
{
	many_calls((void *)20000L);
	return say("many", 0);
}

static int
threads(void)
{
	pthread_t t[8];

	for (size_t i = 0; i < COUNT(t); i++)
		if (pthread_create(&t[i], NULL, many_calls, (void *)300L) != 0)
			return 4;
	for (size_t i = 0; i < COUNT(t); i++)
		pthread_join(t[i], NULL);
	return say("threads", 0);
}

static int
forks(void)
{
	int status, bad = 0;

	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			many_calls((void *)20L);
			_exit(0);
		}
		bad |= pid < 0;
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad ? 5 : say("forks", 0);
}

static volatile sig_atomic_t ticks;

static void
on_tick(int signo)
{
	(void)signo;
	ticks++;
}

/* What every program takes for certain must stay so while signals rain. */
static int
certain(void)
{
	char byte = 'x';
	int p[2], status;
	pid_t pid;

	if (pipe(p) < 0)
		return errno == EINTR ? 0 : -1; /* asked about: may be interrupted */
	if (write(p[1], &byte, 1) != 1 || read(p[0], &byte, 1) != 1 || close(p[0]) < 0)
		return -1;
	if (close(p[1]) < 0 || getpid() < 1)
		return -1;
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		_exit(0);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static int
disturbed(void)
{
	struct itimerval each = { { 0, 500 }, { 0, 500 } };
	struct sigaction sa = { .sa_handler = on_tick }; /* without SA_RESTART */

	sigaction(SIGALRM, &sa, NULL);
	while (setitimer(ITIMER_REAL, &each, NULL) < 0)
		if (errno != EINTR)
			return 6;
	while (ticks < 200) {
		if (certain() != 0)
			return 7;
		while (access("/", F_OK) < 0)
			if (errno != EINTR)
				return 8;
	}
	memset(&each, 0, sizeof(each));
	while (setitimer(ITIMER_REAL, &each, NULL) < 0)
		if (errno != EINTR)
			return 9;
	return say("disturbed", 0);
}

/* Until a signal comes. */
static int
waits(void)
{
	say("waiting", 0);
	fflush(stdout);
	while (pause() < 0)
		;
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} programs[] = {
	{ "extra", extra },
	{ "probes", probes },
	{ "beyond", beyond },
	{ "ambiguous", ambiguous },
	{ "forbidden", forbidden },
	{ "forbidden-below", forbidden_in_a_thread_of_a_child },
	{ "namespaces", namespaces },
	{ "foreign", foreign },
	{ "x32", x32 },
	{ "nameless", nameless },
	{ "many", many },
	{ "threads", threads },
	{ "forks", forks },
	{ "disturbed", disturbed },
	{ "waits", waits },
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; i < COUNT(programs) && argc == 2; i++)
		if (strcmp(programs[i].name, argv[1]) == 0)
			return programs[i].run();
	return 2;
}
