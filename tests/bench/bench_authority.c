/*
 * bench_authority: what a decision costs with 10, 1,000 and 100,000 grants, beside a plain
 * hash of (who, action) with a trie of path segments over the same grants, which knows no
 * windows, purposes, owners, chains or uses.
 */
#include "broker/authority/set.h"

#include "tests/bench/bench.h"

#define QUERIES	   (1u << 14)
#define PASSES	   15
#define PER_ACTOR  100 /* grants: 10 directories of 10 each */
#define GRANTS_MAX 100000

/* ---- the grants ------------------------------------------------------------------------ */

struct one {
	char subject[32], id[16];
	char segment[3][16];
	const char *path[3];
	struct capability capability;
	struct grant grant;
};

/* Its own texts: a call has just been read when it is decided. */
struct query {
	struct context context;
	struct requirement requirement;
	const char *path[4];
	char actor[32], segment[4][16];
};

static const char *read_only[] = { "read" };
static struct one *ones;
static struct query *queries;

static uint32_t
random_u32(void)
{
	static uint64_t seed = 88172645463325252u;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16);
}

static void
make_one(struct one *o, unsigned i)
{
	unsigned k;

	snprintf(o->id, sizeof o->id, "g-%u", i);
	snprintf(o->subject, sizeof o->subject, "agent:worker-%u", i / PER_ACTOR);
	snprintf(o->segment[0], sizeof o->segment[0], "project");
	snprintf(o->segment[1], sizeof o->segment[1], "dir-%u", i / 10 % 10);
	snprintf(o->segment[2], sizeof o->segment[2], "part-%u", i % 10);
	for (k = 0; k < 3; k++)
		o->path[k] = o->segment[k];
	o->capability =
	    (struct capability){ "workspace", NULL, { o->path, 3 }, true, read_only, 1 };
	o->grant = (struct grant){ .id = o->id,
		.subject = o->subject,
		.issuer = "human:operator",
		.namespace = "default",
		.capabilities = &o->capability,
		.ncapabilities = 1,
		.issued_at_ms = 1 };
}

/* A call below what a random one of `n` grants covers. */
static void
make_query(struct query *q, unsigned n, uint64_t revision)
{
	struct one *o = &ones[random_u32() % n];

	unsigned k;

	for (k = 0; k < 4; k++) {
		snprintf(q->segment[k], sizeof q->segment[k], "%s",
		    k < 3 ? o->segment[k] : "file.txt");
		q->path[k] = q->segment[k];
	}
	snprintf(q->actor, sizeof q->actor, "%s", o->subject);
	q->requirement = (struct requirement){ "workspace", NULL, { q->path, 4 }, "read",
		NULL, NULL };
	q->context = (struct context){ q->actor, "human:operator", "human:owner", "default",
		"work", 10, revision };
}

/* ---- the floor ------------------------------------------------------------------------- */

struct branch {
	const char *name;
	struct branch *child; /* sorted by name */
	unsigned n;
	bool allowed;
};

struct tree {
	const char *who, *action;
	struct branch root;
};

static struct tree *trees;
static uint32_t trees_mask;

static uint32_t
hash_fnv(uint32_t h, const char *s)
{
	for (; *s != '\0'; s++)
		h = (h ^ (uint8_t)*s) * 16777619;
	return h;
}

static struct tree *
tree_of(const char *who, const char *action)
{
	uint32_t at = hash_fnv(hash_fnv(2166136261u, who), action);

	for (;; at++) {
		struct tree *t = &trees[at & trees_mask];

		if (t->who == NULL ||
		    (strcmp(t->who, who) == 0 && strcmp(t->action, action) == 0))
			return t;
	}
}

static struct branch *
branch_find(const struct branch *b, const char *name, unsigned *ret_at)
{
	unsigned low = 0, high = b->n, middle;
	int order;

	while (low < high) {
		middle = (low + high) / 2;
		order = strcmp(name, b->child[middle].name);
		if (order == 0)
			return &b->child[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	*ret_at = low;
	return NULL;
}

static void
tree_add(const struct one *o)
{
	struct tree *t = tree_of(o->subject, "read");
	struct branch *b = &t->root, *next;
	unsigned k, at = 0;

	t->who = o->subject;
	t->action = "read";
	for (k = 0; k < 3; k++, b = next) {
		next = branch_find(b, o->path[k], &at);
		if (next != NULL)
			continue;
		b->child = realloc(b->child, (b->n + 1) * sizeof *b);
		if (b->child == NULL)
			die("realloc");
		memmove(&b->child[at + 1], &b->child[at], (b->n++ - at) * sizeof *b);
		next = &b->child[at];
		*next = (struct branch){ .name = o->path[k] };
	}
	b->allowed = true;
}

static bool
tree_allows(const struct query *q)
{
	const struct branch *b = &tree_of(q->context.actor, q->requirement.action)->root;
	unsigned k, at;

	for (k = 0; k < 4 && b != NULL && !b->allowed; k++)
		b = branch_find(b, q->path[k], &at);
	return b != NULL && b->allowed;
}

static void
tree_free(struct branch *b)
{
	unsigned k;

	for (k = 0; k < b->n; k++)
		tree_free(&b->child[k]);
	free(b->child);
}

/* ---- measuring ------------------------------------------------------------------------- */

/* Of this thread alone: there is nothing to wait for in a decision. */
static uint64_t
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double
time_floor(void)
{
	uint64_t start = cpu_ns();
	unsigned i, allowed = 0;

	for (i = 0; i < QUERIES; i++)
		allowed += tree_allows(&queries[i]);
	if (allowed != QUERIES)
		die("the floor denies");
	return (double)(cpu_ns() - start) / QUERIES;
}

static double
time_product(const struct grant_set *set)
{
	uint64_t start = cpu_ns();
	unsigned i, allowed = 0;

	for (i = 0; i < QUERIES; i++)
		allowed +=
		    authority_decide(set, &queries[i].context, &queries[i].requirement, 20)
			.verdict == VERDICT_allowed;
	if (allowed != QUERIES)
		die("a decision denies");
	return (double)(cpu_ns() - start) / QUERIES;
}

struct world {
	unsigned n;
	struct grant_set *set;
	struct tree *trees;
	uint32_t mask;
	struct query *queries;
};

static void
world_make(struct world *w)
{
	unsigned i;

	w->mask = 16;
	while (w->mask < 4 * w->n / PER_ACTOR)
		w->mask *= 2;
	w->mask--;
	w->trees = trees = calloc(w->mask + 1, sizeof *trees);
	w->queries = calloc(QUERIES, sizeof *queries);
	w->set = grant_set_create(REVOCATION_immediate);
	if (trees == NULL || w->queries == NULL || w->set == NULL)
		die("memory");
	trees_mask = w->mask;
	for (i = 0; i < w->n; i++) {
		if (grant_set_add(w->set, &ones[i].grant) < 0)
			die("grant_set_add");
		tree_add(&ones[i]);
	}
	for (i = 0; i < QUERIES; i++)
		make_query(&w->queries[i], w->n, grant_set_revision(w->set));
}

static void
world_free(struct world *w)
{
	uint32_t i;

	grant_set_destroy(w->set);
	for (i = 0; i <= w->mask; i++)
		tree_free(&w->trees[i].root);
	free(w->trees);
	free(w->queries);
}

static void
world_use(const struct world *w)
{
	trees = w->trees;
	trees_mask = w->mask;
	queries = w->queries;
}

/* Grants are in one set at a time: what a set notes in them is of no matter here. */
static void
measure(void)
{
	struct world w[] = { { .n = 10 }, { .n = 1000 }, { .n = GRANTS_MAX } };
	struct series floor[3] = { 0 }, flat[2] = { 0 };
	double product[3];
	int pass, i;

	for (i = 0; i < 3; i++)
		world_make(&w[i]);
	for (pass = 0; pass < PASSES; pass++) {
		for (i = 0; i < 3; i++) {
			world_use(&w[i]);
			/* Nothing of it was in a cache before, or all of it, for both. */
			(void)time_floor();
			product[i] = time_product(w[i].set);
			add(&floor[i], product[i], time_floor());
		}
		add(&flat[0], product[1], product[0]);
		add(&flat[1], product[2], product[0]);
	}
	print_series("T22", "ns", &floor[2], "decision, 100,000 grants; floor: hash and trie");
	print_series("T22k", "ns", &floor[1], "decision, 1,000 grants; floor: hash and trie");
	print_series("T22d", "ns", &floor[0], "decision, 10 grants; floor: hash and trie");
	print_series("T22f", "ns", &flat[1], "decision, 100,000 grants; floor: 10 grants");
	for (i = 0; i < 3; i++)
		world_free(&w[i]);
}

int
main(void)
{
	unsigned i;

	pin(0);
	be_important();
	ones = calloc(GRANTS_MAX, sizeof *ones);
	if (ones == NULL)
		die("memory");
	for (i = 0; i < GRANTS_MAX; i++)
		make_one(&ones[i], i);
	measure();
	free(ones);
	return 0;
}
