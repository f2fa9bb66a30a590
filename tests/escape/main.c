/*
 * escape: runs hostile techniques, each in a process of its own, and says how each ended.
 *
 *   escape NAME... [name=value]...
 *   escape --list
 *   escape --victim FILE       a process to be attacked: holds FILE open, has a secret in
 *                              memory, says "pid address", and says at the end of its
 *                              standard input what has become of it
 *   escape --neighbour=NAME    leaves files of that name in /tmp and /dev/shm, says "ready", and
 *                              waits for its end
 *
 * One line for each: NAME and ESCAPED, CONTAINED, BOUNDED, ABSENT, BROKEN, an errno's name, or
 * "signal N".
 */
#include "tests/escape/escape.h"

#define SECONDS 60 /* for one technique */

extern const struct escape *const __start_escapes[];
extern const struct escape *const __stop_escapes[];

static char **arguments;

const char *
arg(const char *name)
{
	size_t n = strlen(name);

	for (char **a = arguments; *a != NULL; a++)
		if (strncmp(*a, name, n) == 0 && (*a)[n] == '=')
			return *a + n + 1;
	fprintf(stderr, "no argument %s\n", name);
	_exit(BROKEN);
}

long
arg_number(const char *name)
{
	return strtol(arg(name), NULL, 0);
}

const char *
path_in(const char *dir, const char *name)
{
	static char path[4][4096];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", arg(dir), name);
	return p;
}

const char *
own_path(const char *dir)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/escape-%d", dir, (int)getpid());
	return path;
}

int
tried(long ret)
{
	return ret >= 0 ? 0 : errno;
}

int
tried_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	char byte;

	if (fd < 0)
		return errno;
	if ((flags & (O_ACCMODE | O_DIRECTORY | O_PATH)) != O_RDONLY)
		return 0;
	return read(fd, &byte, 1) < 0 ? errno : 0;
}

int
file_has(const char *path, const char *text)
{
	static char content[1 << 18];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (len < sizeof(content) - 1 &&
	       (n = read(fd, content + len, sizeof(content) - 1 - len)) > 0)
		len += (size_t)n;
	content[len] = '\0';
	close(fd);
	return memmem(content, len, text, strlen(text)) != NULL;
}

int
tried_exec(const char *program, char *const argv[])
{
	int status, report[2], error = 0;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC) < 0)
		return BROKEN;
	pid = fork();
	if (pid == 0) {
		close(1);
		close(2);
		execv(program, argv);
		error = errno;
		if (write(report[1], &error, sizeof(error)) < 0)
			_exit(126);
		_exit(127);
	}
	close(report[1]);
	if (read(report[0], &error, sizeof(error)) < 0 || waitpid(pid, &status, 0) < 0)
		return BROKEN;
	if (error != 0)
		return error;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EACCES;
}

void
copy_file(const char *from, const char *to, mode_t mode)
{
	static char block[1 << 16];
	int in = open(from, O_RDONLY | O_CLOEXEC), out;
	ssize_t n;

	unlink(to);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (in < 0 || out < 0)
		_exit(BROKEN);
	while ((n = read(in, block, sizeof(block))) > 0)
		if (write(out, block, (size_t)n) != n)
			_exit(BROKEN);
	close(in);
	close(out);
}

int
is_set_id(const char *path, int otherwise)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return otherwise;
	return (st.st_mode & (S_ISUID | S_ISGID)) != 0 ? 0 : otherwise;
}

/* ---- running ---- */

static _Noreturn void
run_one(const struct escape *e)
{
	setpgid(0, 0);
	/* In the background of a terminal it would be stopped where it is to be refused. */
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
	alarm(SECONDS);
	_exit(e->attempt());
}

static void
say(const char *name, int status)
{
	static const char *const words[] = { "CONTAINED", "BOUNDED", "ABSENT", "BROKEN" };
	int code = WEXITSTATUS(status);

	if (!WIFEXITED(status))
		printf("%s signal %d\n", name, WTERMSIG(status));
	else if (code == 0)
		printf("%s ESCAPED\n", name);
	else if (code >= CONTAINED && code <= BROKEN)
		printf("%s %s\n", name, words[code - CONTAINED]);
	else
		printf("%s %s\n", name, strerrorname_np(code) ? strerrorname_np(code) : "?");
	fflush(stdout);
}

static void
run(const char *name)
{
	const struct escape *const *e = __start_escapes;
	int status = BROKEN << 8;
	pid_t pid;

	while (e < __stop_escapes && strcmp((*e)->name, name) != 0)
		e++;
	if (e < __stop_escapes) {
		pid = fork();
		if (pid == 0)
			run_one(*e);
		if (pid > 0 && waitpid(pid, &status, __WALL) == pid)
			kill(-pid, SIGKILL);
	}
	say(name, status);
}

/* ---- the victim ---- */

static char secret[64] = "the memory of a process of the host";
static volatile sig_atomic_t signals;

static void
on_signal(int signo)
{
	(void)signo;
	signals++;
}

static int
victim(const char *file)
{
	int fd = open(file, O_RDONLY);
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	char c;

	for (int signo = 1; signo < NSIG; signo++)
		sigaction(signo, &sa, NULL);
	printf("%d %#lx\n", (int)getpid(), (unsigned long)secret);
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	printf("%s, %d signals\n", secret, (int)signals);
	return fd < 0;
}

static int
neighbour(const char *name)
{
	static const char *const dirs[] = { "/tmp", "/dev/shm" };
	char path[256];

	setpgid(0, 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		if (open(path, O_WRONLY | O_CREAT, 0644) < 0)
			return 1;
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}

int
main(int argc, char **argv)
{
	const struct escape *const *e;
	int i;

	if (argc == 3 && strcmp(argv[1], "--victim") == 0)
		return victim(argv[2]);
	if (argc == 2 && strncmp(argv[1], "--neighbour=", 12) == 0)
		return neighbour(argv[1] + 12);
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (e = __start_escapes; e < __stop_escapes; e++)
			puts((*e)->name);
		return 0;
	}
	for (i = 1; i < argc && strchr(argv[i], '=') == NULL; i++)
		;
	arguments = argv + i;
	umask(0);
	for (int name = 1; name < i; name++)
		run(argv[name]);
	return 0;
}
