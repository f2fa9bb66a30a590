/*
 * Hostile programs that want an effect, one for each name: attack_effects NAME [PATH].
 * Prints "held" and why, or "IN" and what it got; run outside of a chamber most get in,
 * which is how their test knows that they work.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/sanitizer.h"
#include "common/util.h"

SANITIZER_DEFAULTS

static void
verdict(bool in, const char *what, long n)
{
	printf("%s %s %ld\n", in ? "IN" : "held", what, n);
}

/* What comes of opening `path` with `flags`. */
static void
attempt(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	verdict(fd >= 0, fd >= 0 ? path : strerrorname_np(errno), 0);
}

static void read_it(const char *path) { attempt(path, O_RDONLY); }
static void write_it(const char *path) { attempt(path, O_WRONLY); }

/* ---- files ---- */

static long found;

/* Files and directories under `dir` that can be opened for writing or written into. */
static void
hunt(const char *dir, unsigned depth)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[4096];
	struct stat st;
	int fd;

	if (d == NULL)
		return;
	fd = openat(dirfd(d), "planted", O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd >= 0) {
		printf("writable %s\n", dir);
		unlinkat(dirfd(d), "planted", 0);
		close(fd);
		found++;
	}
	while (depth > 0 && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (lstat(path, &st) < 0 || S_ISLNK(st.st_mode))
			continue;
		if (S_ISDIR(st.st_mode))
			hunt(path, depth - 1);
		else if (S_ISREG(st.st_mode) && (fd = open(path, O_WRONLY)) >= 0) {
			printf("writable %s\n", path);
			close(fd);
			found++;
		}
	}
	closedir(d);
}

static void
hunt_all(const char *path)
{
	(void)path;
	hunt("/", 4);
	verdict(found > 3, "places", found); /* /tmp, /dev/shm and what was mounted writable are its own */
}

static void
climb(const char *secret)
{
	static const char *const ways[] = { "/proc/self/root", "/proc/self/cwd", "/proc/1/root",
		"/proc/1/cwd", "/proc/self/fd/0/../../..", "/tmp/../..", "/../../.." };
	char path[4096];

	for (size_t i = 0; i < countof(ways); i++) {
		snprintf(path, sizeof(path), "%s%s", ways[i], secret);
		if (open(path, O_RDONLY) >= 0) {
			verdict(true, path, 0);
			return;
		}
	}
	verdict(false, strerrorname_np(errno), 0);
}

static void
link_out(const char *secret)
{
	char here[4096];
	bool in;

	snprintf(here, sizeof(here), "%s-link", secret);
	in = link(secret, "/tmp/linked") == 0 || link("/usr/bin/env", here) == 0;
	verdict(in, strerrorname_np(errno), 0);
}

static void
set_uid(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0755);
	struct stat st;

	(void)!chmod(path, 04755);
	(void)!fchmod(fd, 02755);
	(void)!fchmodat(AT_FDCWD, path, 06755, 0);
	verdict(stat(path, &st) < 0 || st.st_mode & 06000, "mode", st.st_mode);
}

static void
set_uid_open(const char *path)
{
	struct stat st;

	close(open(path, O_WRONLY | O_CREAT, 06777));
	verdict(stat(path, &st) < 0 || st.st_mode & 06000, "mode", st.st_mode);
}

static void
set_uid_temporary(const char *path)
{
	int fd = open(path, O_WRONLY | O_TMPFILE, 06777);
	struct stat st;

	verdict(fstat(fd, &st) < 0 || st.st_mode & 06000, "mode", st.st_mode);
}

static void
run_own(const char *path)
{
	char name[4096], *argv[] = { name, NULL };
	int in = open("/usr/bin/true", O_RDONLY), out;
	char buf[65536];
	ssize_t n;

	snprintf(name, sizeof(name), "%s/own", path);
	out = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			break;
	close(out);
	if (fork() == 0) {
		execv(name, argv);
		_exit(errno);
	}
	wait(&out);
	unlink(name);
	verdict(out == 0, strerrorname_np(WEXITSTATUS(out)), 0);
}

static void
map_own(const char *path)
{
	char name[4096];
	int fd;
	void *p;

	snprintf(name, sizeof(name), "%s/own", path);
	fd = open(name, O_RDWR | O_CREAT, 0755);
	if (fd < 0 || ftruncate(fd, 4096) < 0)
		exit(2);
	p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	unlink(name);
	verdict(p != MAP_FAILED, strerrorname_np(errno), 0);
}

static void
touch_read_only(const char *path)
{
	struct timeval tv[2] = { { 0, 0 }, { 0, 0 } };
	bool in = chmod(path, 0777) == 0 || utimes(path, tv) == 0 || truncate(path, 0) == 0 ||
	    rename(path, "/app/renamed") == 0 || unlink(path) == 0 || open(path, O_RDWR) >= 0;

	verdict(in, strerrorname_np(errno), 0);
}

static void
rename_over(const char *path)
{
	char up[4096];
	bool in;

	/* the mount point itself, and through .. of it */
	snprintf(up, sizeof(up), "%s/../etc/passwd", path);
	in = rename(path, "/tmp/moved") == 0 || rename("/tmp", path) == 0 ||
	    open(up, O_WRONLY) >= 0 || rmdir(path) == 0;
	verdict(in, strerrorname_np(errno), 0);
}

/* ---- processes ---- */

static void
fork_bomb(const char *path)
{
	long n = 0;

	(void)path;
	for (; n < 4096; n++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			pause();
			_exit(0);
		}
	}
	verdict(n > 200, strerrorname_np(errno), n);
	kill(-1, SIGKILL); /* all but init and itself; whoever is not reached lives on */
}

static void
signal_others(const char *text)
{
	pid_t pid = (pid_t)strtol(text, NULL, 10);

	bool in = kill(pid, SIGKILL) == 0;

	verdict(in, strerrorname_np(errno), pid);
}

static void
kill_init(const char *path)
{
	(void)path;
	kill(1, SIGKILL);
	kill(1, SIGTERM);
	kill(1, SIGSTOP);
	verdict(kill(1, 0) < 0 && errno == ESRCH, "init lives", 0);
}

static void
see_others(const char *path)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	long n = 0;

	(void)path;
	while (d != NULL && (e = readdir(d)) != NULL)
		n += strtol(e->d_name, NULL, 10) > 0;
	verdict(n > 1, "processes", n);
}

static void
inherited(const char *path)
{
	long n = 0;

	(void)path;
	for (int fd = 3; fd < 65536; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	verdict(n > 0, "descriptors", n);
}

static void
raise_limits(const char *path)
{
	static const int which[] = { RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_SIGPENDING,
		RLIMIT_CORE, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO };
	long n = 0;

	(void)path;
	for (size_t i = 0; i < countof(which); i++) {
		struct rlimit r;

		getrlimit(which[i], &r);
		if (r.rlim_max == RLIM_INFINITY)
			n++;
		r.rlim_max++;
		n += setrlimit(which[i], &r) == 0;
	}
	n += setpriority(PRIO_PROCESS, 0, -10) == 0;
	verdict(n > 0, "limits", n);
}

static void
many_descriptors(const char *path)
{
	long n = 0;

	(void)path;
	while (n < 100000 && dup(0) >= 0)
		n++;
	verdict(n > 5000, strerrorname_np(errno), n);
}

static void
many_timers(const char *path)
{
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t t;
	long n = 0;

	(void)path;
	while (n < 100000 && timer_create(CLOCK_MONOTONIC, &e, &t) == 0)
		n++;
	verdict(n > 5000, strerrorname_np(errno), n);
}

static void
fill(const char *path)
{
	static char block[1 << 20];
	char name[4096];
	long n = 0;
	int fd;

	snprintf(name, sizeof(name), "%s/fill", path);
	fd = open(name, O_WRONLY | O_CREAT, 0600);
	while (n < 512 && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		n++;
	unlink(name);
	verdict(n >= 512, strerrorname_np(errno), n);
}

static void
fill_files(const char *path)
{
	char name[4096];
	long n = 0;
	int fd;

	for (; n < 100000; n++) {
		snprintf(name, sizeof(name), "%s/%ld", path, n);
		fd = open(name, O_WRONLY | O_CREAT, 0600);
		if (fd < 0)
			break;
		close(fd);
	}
	verdict(n >= 100000, strerrorname_np(errno), n);
}

static void
outlive(const char *path)
{
	(void)path;
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			setsid();
			if (fork() > 0)
				_exit(0);
			for (int s = 1; s < 32; s++)
				signal(s, SIG_IGN);
			for (;;)
				pause(); /* holding all that it inherited open */
		}
	verdict(false, "left behind", 6);
}

static void
core(const char *path)
{
	struct rlimit r = { RLIM_INFINITY, RLIM_INFINITY };
	int status;

	setrlimit(RLIMIT_CORE, &r);
	if (chdir(path) == 0 && fork() == 0)
		abort();
	wait(&status);
	verdict(WCOREDUMP(status), "signal", WTERMSIG(status));
}

static void
send_descriptor(const char *path)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
		.msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd = open("/", O_RDONLY | O_DIRECTORY);

	(void)path;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	for (fd = 0; fd < 3; fd++)
		if (sendmsg(fd, &m, MSG_NOSIGNAL) >= 0)
			break;
	verdict(fd < 3, strerrorname_np(errno), 0);
}

static const struct technique {
	const char *name;
	void (*run)(const char *path);
} techniques[] = {
	{ "read", read_it }, { "write", write_it }, { "hunt", hunt_all }, { "climb", climb },
	{ "link-out", link_out }, { "set-uid", set_uid }, { "set-uid-open", set_uid_open },
	{ "set-uid-temporary", set_uid_temporary }, { "run-own", run_own },
	{ "map-own", map_own }, { "touch-read-only", touch_read_only },
	{ "rename-over", rename_over }, { "fork-bomb", fork_bomb },
	{ "signal-others", signal_others }, { "kill-init", kill_init },
	{ "see-others", see_others }, { "inherited", inherited },
	{ "raise-limits", raise_limits }, { "many-descriptors", many_descriptors },
	{ "many-timers", many_timers }, { "fill", fill }, { "fill-files", fill_files },
	{ "outlive", outlive }, { "core", core }, { "send-descriptor", send_descriptor },
};

int
main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc >= 2 && i < countof(techniques); i++)
		if (strcmp(argv[1], techniques[i].name) == 0) {
			techniques[i].run(argc > 2 ? argv[2] : "/tmp");
			return 0;
		}
	return 2;
}
