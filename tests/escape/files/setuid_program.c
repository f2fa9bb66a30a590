/*
 * Run a set-uid program, and be its owner.
 * LD_PRELOAD, CVE-2023-4911, CVE-2021-4034: any bug in any of them.
 */
#include "tests/escape/escape.h"

ESCAPE(setuid_program)
{
	int out[2], gone[2], filled = 0;
	char path[64], block[4096] = "";
	pid_t pid;

	if (geteuid() == 0)
		return ABSENT;
	if (pipe(out) < 0 || pipe2(gone, O_CLOEXEC) < 0)
		return BROKEN;
	/* Its output is full, so that it stands still where it can be looked at. */
	fcntl(out[1], F_SETFL, O_NONBLOCK);
	while (write(out[1], block, sizeof(block)) > 0)
		filled++;
	fcntl(out[1], F_SETFL, 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		execl("/usr/bin/mount", "mount", "--help", NULL);
		_exit(1);
	}
	close(gone[1]);
	if (read(gone[0], block, 1) != 0 || filled == 0)
		return BROKEN;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	for (int i = 0; i < 1000; i++) {
		/* real, effective, saved */
		if (file_has(path, "\t0\t0\t0\n") == 1)
			return 0;
		sched_yield();
	}
	kill(pid, SIGKILL);
	return CONTAINED;
}
