/*
 * launch_host: what of the host every chamber shows, looked up once in the life of a process.
 */
#ifndef SUPERVISOR_LAUNCH_HOST_H
#define SUPERVISOR_LAUNCH_HOST_H

#include <limits.h>
#include <stdbool.h>

/* A directory of programs beside /usr, or a link to one in it. */
struct launch_host_root {
	const char *path;
	char link[PATH_MAX]; /* what it says, "" if it is none */
	bool is_dir;
};

/* What a dynamic program needs of the host besides, where the host has it. */
struct launch_host_file {
	const char *path;
	char real[PATH_MAX]; /* "" where it is not */
	bool network;        /* only of use to a provider with declared hosts */
};

struct launch_host {
	struct launch_host_root root[5];
	struct launch_host_file file[6];
};

/* Looks, the first time; -errno (ENOMEM, EIO ...) if that says nothing about what is there. */
int launch_host_look(const struct launch_host **ret_host);

#endif /* SUPERVISOR_LAUNCH_HOST_H */
