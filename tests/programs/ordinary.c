/*
 * What an ordinary C program does: threads, children in three ways, a lookup, signals, timers,
 * files.  Prints what worked; ends with the number of the first step that did not.
 */
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static volatile sig_atomic_t rang;

static void
on_alarm(int signo)
{
	(void)signo;
	rang = 1;
}

static void *
work(void *arg)
{
	void *p = malloc(1 << 20);

	memset(p, 1, 1 << 20);
	free(p);
	return arg;
}

static int
threads(void)
{
	pthread_t t[8];
	int mark[8];
	void *got;

	for (int i = 0; i < 8; i++)
		if (pthread_create(&t[i], NULL, work, &mark[i]) != 0)
			return -1;
	for (int i = 0; i < 8; i++)
		if (pthread_join(t[i], &got) != 0 || got != &mark[i])
			return -1;
	return 0;
}

static int
spawn(void)
{
	char *argv[] = { (char[]){ "true" }, NULL };
	int status;
	pid_t pid;

	if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		return -1;
	pid = fork();
	if (pid == 0)
		_exit(3);
	return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3 ? 0 : -1;
}

static int
pipes(void)
{
	char line[16] = "";
	FILE *f = popen("echo popen", "r"); /* NOLINT: it is what is tried */

	if (f == NULL || fgets(line, sizeof(line), f) == NULL || pclose(f) != 0)
		return -1;
	return strcmp(line, "popen\n") == 0 ? 0 : -1;
}

static int
lookup(void)
{
	struct addrinfo *found;

	if (getaddrinfo("127.0.0.1", "80", NULL, &found) != 0)
		return -1;
	freeaddrinfo(found);
	return 0;
}

static int
timers(void)
{
	struct itimerspec soon = { .it_value = { .tv_nsec = 1000000 } };
	struct sigaction act = { .sa_handler = on_alarm };
	sigset_t none, blocked;
	timer_t timer;

	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGALRM);
	if (sigaction(SIGALRM, &act, NULL) < 0 || sigprocmask(SIG_BLOCK, &blocked, NULL) < 0 ||
	    timer_create(CLOCK_MONOTONIC, NULL, &timer) < 0 ||
	    timer_settime(timer, 0, &soon, NULL) < 0)
		return -1;
	while (!rang)
		sigsuspend(&none);
	return timer_delete(timer);
}

static int
files(void)
{
	char path[] = "/tmp/ordinary-XXXXXX", *p;
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path) < 0 || ftruncate(fd, 4096) < 0)
		return -1;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -1;
	p[0] = 'x';
	return munmap(p, 4096) + close(fd);
}

int
main(void)
{
	static const struct {
		const char *name;
		int (*step)(void);
	} steps[] = { { "threads", threads }, { "spawn", spawn }, { "pipes", pipes },
		{ "lookup", lookup }, { "timers", timers }, { "files", files } };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i].step() != 0) {
			perror(steps[i].name);
			return (int)i + 1;
		}
		printf("%s\n", steps[i].name);
		fflush(stdout);
	}
	return 0;
}
