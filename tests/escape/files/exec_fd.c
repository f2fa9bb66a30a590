/*
 * Start a dropped program by its descriptor.
 * fexecve names no path that could be judged.
 */
#include "tests/escape/escape.h"

ESCAPE(exec_fd)
{
	const char *path = path_in("rw", "exec_fd");
	char *argv[] = { (char *)(uintptr_t)path, (char[]){ "--list" }, NULL };
	int fd, status;

	copy_file(arg("self"), path, 0755);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fork() == 0) {
		close(1);
		syscall(SYS_execveat, fd, "", argv, NULL, AT_EMPTY_PATH);
		_exit(errno);
	}
	wait(&status);
	return WEXITSTATUS(status);
}
