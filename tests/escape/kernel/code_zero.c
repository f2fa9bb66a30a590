/*
 * Write code through a mapping of /dev/zero and have a child run it through its own.
 * Shared memory that has a name besides the usual ones, and a fork in the place of mremap.
 */
#include "tests/escape/escape.h"

static int
run_in_child(void *code)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(((int (*)(void))code)());
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return BROKEN;
	return WIFEXITED(status) && WEXITSTATUS(status) == 42 ? 0 : BROKEN;
}

ESCAPE(code_zero)
{
	static const unsigned char code[] = { 0xb8, 42, 0, 0, 0, 0xc3 }; /* return 42 */
	int fd = open("/dev/zero", O_RDWR | O_CLOEXEC), status = -1;
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	pid_t pid;

	if (p == MAP_FAILED)
		return errno;
	pid = fork();
	if (pid == 0) {
		if (mprotect(p, 4096, PROT_READ | PROT_WRITE) < 0)
			_exit(errno);
		memcpy(p, code, sizeof(code));
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return BROKEN;
	return WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : run_in_child(p);
}
