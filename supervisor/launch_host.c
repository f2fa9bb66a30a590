#include "supervisor/launch_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/launch_plan.h"

static struct launch_host host = {
	.root = { { .path = "/bin" }, { .path = "/sbin" }, { .path = "/lib" },
	    { .path = "/lib64" }, { .path = "/lib32" } },
	.file = { { .path = "/etc/ld.so.cache" }, { .path = "/etc/alternatives" },
	    { .path = "/etc/localtime" }, { .path = "/etc/ssl/certs", .network = true },
	    { .path = "/etc/resolv.conf", .network = true },
	    { .path = "/etc/services", .network = true } },
};

/* Or not for us; any other errno says nothing about what is there. */
static bool
is_absent(int error)
{
	return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP;
}

static int
look_at_root(struct launch_host_root *r)
{
	struct stat st;
	ssize_t n = 0;

	if (lstat(r->path, &st) < 0)
		return is_absent(errno) ? 0 : -errno;
	r->is_dir = S_ISDIR(st.st_mode);
	if (S_ISLNK(st.st_mode) && (n = readlink(r->path, r->link, PATH_MAX - 1)) < 0)
		return -errno;
	r->link[n] = '\0';
	return 0;
}

int
launch_host_look(const struct launch_host **ret_host)
{
	static bool known;
	int ret = 0;

	*ret_host = &host;
	for (size_t i = 0; !known && i < countof(host.root) && ret == 0; i++)
		ret = look_at_root(&host.root[i]);
	for (size_t i = 0; !known && i < countof(host.file) && ret == 0; i++)
		if (realpath(host.file[i].path, host.file[i].real) == NULL) {
			ret = is_absent(errno) ? 0 : -errno;
			host.file[i].real[0] = '\0';
		}
	known = ret == 0;
	return ret;
}

/* Is the launcher in `folder` beneath `root`?  If so, that is the directory. */
static bool
libexec_at(const char *root, const char *folder, char dir[PATH_MAX])
{
	char launcher[PATH_MAX];
	int n = snprintf(launcher, sizeof(launcher), "%s/%s/caisson-worker", root, folder);

	if (n >= (int)sizeof(launcher) || access(launcher, X_OK) < 0)
		return false;
	*strrchr(launcher, '/') = '\0';
	snprintf(dir, PATH_MAX, "%s", launcher);
	return true;
}

const char *
launch_libexec(void)
{
	static char dir[PATH_MAX];
	static bool found;
	char exe[PATH_MAX], *slash;
	ssize_t n;

	if (found)
		return dir;
	/* The launcher follows no link on the way to a source. */
	if (realpath(LIBEXECDIR, dir) == NULL)
		snprintf(dir, sizeof(dir), "%s", LIBEXECDIR);
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n <= 0)
		return dir;
	exe[n] = '\0';
	/* bin/caissond, test/test_launch, test/program/chamber_run; as built, as installed */
	for (int up = 0; !found && up < 3 && (slash = strrchr(exe, '/')) != NULL; up++) {
		*slash = '\0';
		found = up > 0 && (libexec_at(exe, "libexec", dir) ||
				      libexec_at(exe, "libexec/caisson", dir));
	}
	return dir;
}
