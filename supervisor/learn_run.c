#include "supervisor/learn_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/child.h"
#include "common/util.h"
#include "supervisor/learn.h"
#include "supervisor/profiles.h"

static int
no_file(const char *path, int error, char err[CONF_ERROR_MAX])
{
	snprintf(err, CONF_ERROR_MAX, "--output: %.300s: %s%s", path, strerror(error),
	    error == EEXIST ? ", and nothing is ever overwritten: name another" : "");
	return -error;
}

/*
 * Now, as it would be a pity at the end; and the folder is held, as a program that may write
 * there could put a link to another in its place.
 */
static int
open_folder(struct learn_run *r, const char *path, char err[CONF_ERROR_MAX])
{
	cleanup_free char *folder = strdup(path);
	struct stat st;
	char *slash;

	if (folder == NULL)
		return no_file(path, ENOMEM, err);
	slash = strrchr(folder, '/');
	r->name = slash != NULL ? path + (slash + 1 - folder) : path;
	if (slash != NULL)
		slash[slash == folder] = '\0';
	r->folder_fd = open(slash != NULL ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->folder_fd < 0)
		return no_file(path, errno, err);
	if (*r->name == '\0' || fstatat(r->folder_fd, r->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return no_file(path, EEXIST, err);
	if (faccessat(r->folder_fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return no_file(path, errno, err);
	return 0;
}

/* ---- what came before -------------------------------------------------------------- */

static int
open_onto(struct learn_run *r, const struct profile **ret_profile,
    const struct profile **ret_root, char err[CONF_ERROR_MAX])
{
	const char *path = r->o->onto;
	size_t i = 0;
	int ret = conf_open(path, &r->onto, err);

	if (ret == 0)
		ret = conf_resolve(&r->onto, path, err);
	if (ret < 0)
		return ret;
	while (i < r->onto.profiles.n && strcmp(r->onto.profiles.v[i].id, LEARN_PROFILE) != 0)
		i++;
	if (i == r->onto.profiles.n) {
		snprintf(err, CONF_ERROR_MAX, "--onto: %.300s has no profile " LEARN_PROFILE
			 ", expected what caisson learn wrote", path);
		return -EINVAL;
	}
	r->profile = &r->onto.profiles.v[i];
	*ret_root = profile_named(r->profile->base);
	*ret_profile = conf_profile_named(&r->onto, LEARN_PROFILE);
	if (*ret_root == NULL || (*ret_root)->libexec)
		return conf_refuse(err, path, r->profile->at_base,
		    "base: \"%.64s\" is not one that a program is learned on, expected native, "
		    "interpreter or jit", r->profile->base);
	return 0;
}

int
learn_run_begin(const struct options *o, const struct conf_namespace *c,
    struct learn_run *ret, char err[CONF_ERROR_MAX])
{
	const struct profile *profile, *root;
	int r = 0;

	*ret = LEARN_RUN_NONE;
	ret->o = o;
	profile = root = conf_profile_named(c, c->runtimes.v[0].profile);
	if (o->has_proposal)
		r = open_folder(ret, o->proposal, err);
	if (r == 0 && o->has_onto)
		r = open_onto(ret, &profile, &root, err);
	if (r < 0)
		return r;
	r = learn_create(profile, root, &ret->learn);
	if (r < 0)
		snprintf(err, CONF_ERROR_MAX, "learn: cannot make a filter: %s", strerror(-r));
	return r;
}

/* ---- the proposal ------------------------------------------------------------------ */

static int
write_all(int fd, const char *p, size_t n)
{
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	ssize_t r;

	while (n > 0) {
		r = write(fd, p, n);
		if (r < 0 && errno == EAGAIN)
			poll(&ready, 1, -1); /* nothing else is left to do, and nobody to do it for */
		else if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0) {
			p += r;
			n -= (size_t)r;
		}
	}
	return 0;
}

static int
write_file(const struct learn_run *run, const char *p, size_t n)
{
	cleanup_fd int fd = openat(run->folder_fd, run->name,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, p, n);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(run->folder_fd, run->name, 0);
	return r;
}

int
learn_run_end(const struct learn_run *r, char err[CONF_ERROR_MAX])
{
	cleanup_free char *text = NULL;
	size_t n = 0;
	FILE *f;
	int ret;

	if (learn_exit(r->learn) == NULL) {
		snprintf(err, CONF_ERROR_MAX, "learn: nothing is proposed, as no program ran");
		return -ECANCELED;
	}
	f = open_memstream(&text, &n);
	if (f == NULL)
		return no_file("-", errno, err);
	learn_propose(f, r->learn, r->profile, r->o->command);
	if (fclose(f) != 0)
		return no_file("-", errno, err);
	if (r->o->has_proposal) {
		ret = write_file(r, text, n);
		return ret < 0 ? no_file(r->o->proposal, -ret, err) : 0;
	}
	ret = write_all(PRIVATE_FD_PROPOSAL, text, n);
	return ret < 0 ? no_file("standard output", -ret, err) : 0;
}

void
learn_run_finish(struct learn_run *r)
{
	learn_destroy(r->learn);
	r->learn = NULL;
	conf_finish(&r->onto);
	util_close(&r->folder_fd);
	r->folder_fd = -1;
}
