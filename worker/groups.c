#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "worker/text.h"
#include "worker/worker.h"

bool
groups_are_there(const struct plan *p)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (p->steps[i].op == PLAN_CGROUP || p->steps[i].op == PLAN_CGROUP_INTO)
			return true;
	return false;
}

void
groups_open(const struct plan *p, int *trees)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		uint32_t op = p->steps[i].op;

		if (op != PLAN_CGROUP && op != PLAN_CGROUP_INTO)
			continue;
		trees[i] = open(plan_string(p, p->steps[i].source),
		    op == PLAN_CGROUP ? O_WRONLY | O_CLOEXEC :
					O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (trees[i] < 0)
			die(LAYER_CGROUP, errno);
	}
}

int
groups_into(const struct plan *p, const int *trees)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (p->steps[i].op == PLAN_CGROUP_INTO)
			return trees[i];
	return -1;
}

/*
 * v1 knows no birth in a group: the chamber is put there while it waits for its uid.  Not
 * by way of us, who would count among its processes.
 */
void
groups_join(const struct plan *p, const int *trees, pid_t pid)
{
	char number[24];
	struct text text = TEXT(number);

	text_add_number(&text, (uint64_t)pid);
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		if (p->steps[i].op != PLAN_CGROUP ||
		    write(trees[i], text.buf, text.n) == (ssize_t)text.n)
			continue;
		if (errno == ESRCH)
			_exit(0); /* it has died: that is the news, not our failure */
		die(LAYER_CGROUP, errno);
	}
}
