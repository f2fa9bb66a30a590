/*
 * endings_probe: dies as it is told to, for tests of what is said about it.
 *
 *   endings_probe exit STATUS | signal NUMBER | syscall | thread | memory | file | cpu | cpu-deaf |
 *       forks | write PATH BYTES | garbage | wait
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"

static char block[1 << 16];

/* Its deaths are its own, in sanitizer builds, too. */
const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
	return "detect_leaks=0:handle_segv=0:handle_abort=0";
}

static _Noreturn void
wait_for_ever(void)
{
	for (;;)
		pause();
}

static int
die_exit(char **argv)
{
	return atoi(argv[0]);
}

static int
die_signal(char **argv)
{
	kill(getpid(), atoi(argv[0]));
	wait_for_ever();
}

/* On nobody's list. */
static int
die_syscall(char **argv)
{
	(void)argv;
	return (int)syscall(SYS_keyctl, 0, 0, 0, 0, 0);
}

static void *
forbidden(void *arg)
{
	syscall(SYS_keyctl, 0, 0, 0, 0, 0);
	return arg;
}

static int
die_cpu(char **argv)
{
	volatile bool busy = true;

	(void)argv;
	while (busy)
		;
	return 99;
}

/* The first thread is busy and would go on for ever. */
static int
die_thread(char **argv)
{
	pthread_t t;

	if (pthread_create(&t, NULL, forbidden, NULL) != 0)
		return 99;
	return die_cpu(argv);
}

static int
die_memory(char **argv)
{
	char *p;

	(void)argv;
	for (unsigned i = 0; i < 1024; i++) {
		p = malloc(1 << 20);
		if (p == NULL)
			return 12;
		memset(p, 1, 1 << 20);
	}
	return 99;
}

static int
write_to(const char *path, uint64_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return 98;
	for (uint64_t n = 0; n < bytes; n += sizeof(block))
		if (write(fd, block, sizeof(block)) < 0)
			return 97;
	return fsync(fd) == 0 ? 0 : 96;
}

static int
die_file(char **argv)
{
	(void)argv;
	return write_to("/tmp/large", 32 << 20);
}

static int
die_write(char **argv)
{
	return write_to(argv[0], strtoull(argv[1], NULL, 10));
}

static int
die_cpu_deaf(char **argv)
{
	signal(SIGXCPU, SIG_IGN);
	return die_cpu(argv);
}

static int
die_forks(char **argv)
{
	(void)argv;
	for (unsigned i = 0; i < 64; i++) {
		pid_t pid = fork();

		if (pid == 0)
			wait_for_ever();
		if (pid < 0)
			return errno == EAGAIN ? 7 : 8;
	}
	return 99;
}

static int
die_garbage(char **argv)
{
	(void)argv;
	if (write(3, "\0\0\0\1\xc1", 5) != 5)
		return 95;
	wait_for_ever();
}

static int
die_wait(char **argv)
{
	(void)argv;
	wait_for_ever();
}

static const struct {
	const char *name;
	int words;
	int (*die)(char **argv);
} ways[] = {
	{ "exit", 1, die_exit },
	{ "signal", 1, die_signal },
	{ "syscall", 0, die_syscall },
	{ "thread", 0, die_thread },
	{ "memory", 0, die_memory },
	{ "file", 0, die_file },
	{ "write", 2, die_write },
	{ "cpu", 0, die_cpu },
	{ "cpu-deaf", 0, die_cpu_deaf },
	{ "forks", 0, die_forks },
	{ "garbage", 0, die_garbage },
	{ "wait", 0, die_wait },
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < countof(ways); i++)
		if (strcmp(ways[i].name, argv[1]) == 0 && argc == 2 + ways[i].words)
			return ways[i].die(argv + 2);
	return 94;
}
