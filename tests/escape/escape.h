/*
 * escape: the frame of the escape suite.
 *
 * One technique is one file: a first comment whose first sentence names it and whose rest says
 * where it bit somebody, and one ESCAPE(name), name being that of the file.  It runs in a
 * process of its own and returns 0 if it got what it was after, the errno that it was
 * refused with, or one of the words below.  What it is to attack (a process, a port, a
 * file of the host) it is told in arguments name=value.
 *
 * A technique proves something only where it succeeds without a chamber: see table.tsv.
 */
#ifndef TESTS_ESCAPE_ESCAPE_H
#define TESTS_ESCAPE_ESCAPE_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CONTAINED = 240, /* the call was answered, and nothing of the host's was in it */
	BOUNDED,	 /* it got some, and then no more */
	ABSENT,		 /* this machine has nothing of the kind to attack */
	BROKEN,		 /* the technique could not even be tried: a mistake in the suite */
};

struct escape {
	const char *name;
	int (*attempt)(void);
};

#define ESCAPE(id)                                                                             \
	static int attempt_##id(void);                                                         \
	static const struct escape escape_##id = { #id, attempt_##id };                        \
	__attribute__((section("escapes"),                                                     \
	    used)) static const struct escape *const escape_at_##id = &escape_##id;            \
	static int attempt_##id(void)

/* The value of an argument; ends the technique as BROKEN if it was not given. */
const char *arg(const char *name);
long arg_number(const char *name);

/* The path `name` in the directory that argument `dir` gives.  Valid for three calls more. */
const char *path_in(const char *dir, const char *name);

/* A path in `dir` that no other process uses.  Valid until the next call. */
const char *own_path(const char *dir);

/* What a call returned, as the result of a technique: 0, or errno. */
int tried(long ret);

/* Opens `path` and says so; with O_RDONLY at least one byte must be readable. */
int tried_open(const char *path, int flags);

/* Is `text` in what can be read from `path`?  1, 0 or -1 and errno. */
int file_has(const char *path, const char *text);

/* Runs `program` in a child, without output.  0 if it ran and exited with 0, else an errno. */
int tried_exec(const char *program, char *const argv[]);

/* Copies the file at `from` to `to`, with that mode; ends as BROKEN if that fails. */
void copy_file(const char *from, const char *to, mode_t mode);

/* A set-uid or set-gid bit stands on `path`: 0; else `otherwise`. */
int is_set_id(const char *path, int otherwise);

/* One io_uring, one entry at a time (ring.c).  0 or -1 and errno; result of the operation. */
int ring_open(void);
int ring_do(const void *sqe, int *ret_result);

#endif /* TESTS_ESCAPE_ESCAPE_H */
