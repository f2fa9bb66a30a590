#include "worker/plan.h"

#include <errno.h>
#include <stdbool.h>

/* `count` elements of `size` bytes at `offset`, inside the plan and aligned. */
static bool
table_fits(uint32_t offset, uint32_t count, size_t size, size_t align, size_t n)
{
	return offset % align == 0 && offset >= sizeof(struct plan_header) && offset <= n &&
	    count <= (n - offset) / size;
}

static bool
string_fits(const struct plan_header *h, uint32_t offset, bool required)
{
	return offset == PLAN_NONE ? !required : offset < h->strings_len;
}

static bool
strings_fit(const struct plan_header *h, const uint32_t *offsets, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!string_fits(h, offsets[i], true))
			return false;
	return true;
}

static bool
step_fits(const struct plan_header *h, const char *strings, const struct plan_step *s)
{
	bool has_source = s->op != PLAN_DIR && s->op != PLAN_TMPFS && s->op != PLAN_PROC;
	bool has_target = s->op != PLAN_CGROUP && s->op != PLAN_CGROUP_INTO;

	if (s->op == 0 || s->op >= PLAN_OP_MAX)
		return false;
	if (!string_fits(h, s->target, has_target) || !string_fits(h, s->source, has_source))
		return false;
	return !has_target || strings[s->target] == '/';
}

/* Who stands by has no program, and nothing of one. */
static bool
program_fits(const struct plan_header *h)
{
	if (h->flags & PLAN_STAND)
		return h->argc == 0 && h->nfds == 0 && (h->flags & PLAN_INIT) == 0;
	return h->argc > 0 && h->nfds >= 3 && h->nfds <= PLAN_FDS_MAX;
}

int
plan_check(const void *bytes, size_t n, struct plan *ret)
{
	const struct plan_header *h = bytes;
	const char *base = bytes;
	struct plan p = { .h = h };

	if (n < sizeof(*h) || n > PLAN_MAX || h->magic != PLAN_MAGIC ||
	    h->version != PLAN_VERSION || h->size_bytes != n)
		return -EINVAL;
	if (!table_fits(h->steps, h->nsteps, sizeof(*p.steps), 8, n) ||
	    !table_fits(h->argv, h->argc, sizeof(*p.argv), 4, n) ||
	    !table_fits(h->env, h->envc, sizeof(*p.env), 4, n) ||
	    !table_fits(h->filter, h->nfilter, sizeof(*p.filter), 8, n) ||
	    !table_fits(h->strings, h->strings_len, 1, 1, n))
		return -EINVAL;
	if (!program_fits(h) || h->nfilter > BPF_MAXINSNS || h->strings_len == 0)
		return -EINVAL;
	p.steps = (const void *)(base + h->steps);
	p.argv = (const void *)(base + h->argv);
	p.env = (const void *)(base + h->env);
	p.filter = (const void *)(base + h->filter);
	p.strings = base + h->strings;
	if (p.strings[h->strings_len - 1] != '\0')
		return -EINVAL;
	if (!strings_fit(h, p.argv, h->argc) || !strings_fit(h, p.env, h->envc) ||
	    !string_fits(h, h->cwd, true) || !string_fits(h, h->stop, false))
		return -EINVAL;
	for (uint32_t i = 0; i < h->nsteps; i++)
		if (!step_fits(h, p.strings, &p.steps[i]))
			return -EINVAL;
	*ret = p;
	return 0;
}

const char *
plan_string(const struct plan *p, uint32_t offset)
{
	return offset == PLAN_NONE ? NULL : p->strings + offset;
}
