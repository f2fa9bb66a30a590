/*
 * schema_pattern: a parsed pattern becomes the program of an automaton, which is in all its
 * states at once.
 *
 * A library that backtracks needs a limit that refuses some texts of sound patterns, and a
 * front that refuses all that it knows beyond ECMA-262, which is a parser; behind one, this is
 * what is left to do.
 */
#include "broker/schema_pattern.h"

#include <errno.h>
#include <string.h>

#include "broker/schema_pattern_tree.h"

#define VISITS_MAX (4 * PATTERN_PROGRAM_MAX) /* of nodes, while the program is written */

struct instruction {
	enum pattern_op op;
	uint32_t x, y; /* CHARACTER: x; SPLIT: where to go on; JUMP: x */
	const struct pattern_class *class;
};

struct pattern {
	struct instruction *program;
	size_t n;
	bool anchored; /* can begin at the start of a text only */
};

/* ---- writing the program -------------------------------------------------------------- */

struct writer {
	struct instruction *program; /* NULL: only counts */
	uint32_t n, visits;
};

static int write_node(struct writer *w, const struct pattern_node *node);

static int
put(struct writer *w, enum pattern_op op, uint32_t x, uint32_t y)
{
	if (w->n == PATTERN_PROGRAM_MAX)
		return -E2BIG;
	if (w->program != NULL)
		w->program[w->n] = (struct instruction){ op, x, y, NULL };
	w->n++;
	return 0;
}

static int
write_choice(struct writer *w, const struct pattern_node *node)
{
	const struct pattern_node *n;
	uint32_t split, last = UINT32_MAX, before; /* jumps to the end, linked by x */
	int r;

	for (n = node->first; n->next != NULL; n = n->next) {
		split = w->n;
		r = put(w, PATTERN_SPLIT, split + 1, 0);
		if (r == 0)
			r = write_node(w, n);
		if (r == 0)
			r = put(w, PATTERN_JUMP, last, 0);
		if (r < 0)
			return r;
		last = w->n - 1;
		if (w->program != NULL)
			w->program[split].y = w->n;
	}
	r = write_node(w, n);
	for (; r == 0 && w->program != NULL && last != UINT32_MAX; last = before) {
		before = w->program[last].x;
		w->program[last].x = w->n;
	}
	return r;
}

static int
write_repeat(struct writer *w, const struct pattern_node *node)
{
	uint32_t i, from = w->n, last = UINT32_MAX, before; /* splits to the end, by y */
	int r = 0;

	for (i = 0; i < node->min && r == 0; i++) {
		from = w->n;
		r = write_node(w, node->first);
	}
	if (r == 0 && node->max == PATTERN_UNBOUNDED) {
		if (node->min > 0)
			return put(w, PATTERN_SPLIT, from, w->n + 1);
		r = put(w, PATTERN_SPLIT, w->n + 1, UINT32_MAX);
		if (r == 0)
			r = write_node(w, node->first);
		if (r == 0)
			r = put(w, PATTERN_JUMP, from, 0);
		last = from;
	} else {
		for (; i < node->max && r == 0; i++) {
			r = put(w, PATTERN_SPLIT, w->n + 1, last);
			last = w->n - 1;
			if (r == 0)
				r = write_node(w, node->first);
		}
	}
	for (; r == 0 && w->program != NULL && last != UINT32_MAX; last = before) {
		before = w->program[last].y;
		w->program[last].y = w->n;
	}
	return r;
}

static int
write_node(struct writer *w, const struct pattern_node *node)
{
	const struct pattern_node *n;
	int r;

	if (++w->visits > VISITS_MAX)
		return -E2BIG;
	switch (node->op) {
	case PATTERN_CHOICE: return write_choice(w, node);
	case PATTERN_REPEAT: return write_repeat(w, node);
	case PATTERN_SEQUENCE:
		for (n = node->first; n != NULL; n = n->next) {
			r = write_node(w, n);
			if (r < 0)
				return r;
		}
		return 0;
	default:
		r = put(w, node->op, node->character, 0);
		if (r == 0 && w->program != NULL)
			w->program[w->n - 1].class = node->class;
		return r;
	}
}

/* Once to count, once to write. */
static int
write_program(const struct pattern_node *tree, struct zone *z, struct pattern *p)
{
	struct writer w = { NULL, 0, 0 };
	int r;

	r = write_node(&w, tree);
	if (r == 0)
		r = put(&w, PATTERN_MATCH, 0, 0);
	if (r < 0)
		return r;
	p->program = zone_alloc(z, w.n, sizeof(*p->program));
	if (p->program == NULL)
		return -ENOMEM;
	w = (struct writer){ p->program, 0, 0 };
	r = write_node(&w, tree);
	if (r == 0)
		r = put(&w, PATTERN_MATCH, 0, 0);
	p->n = w.n;
	return r;
}

/* Does every way through the tree begin with ^? */
static bool
is_anchored(const struct pattern_node *tree)
{
	const struct pattern_node *n;

	switch (tree->op) {
	case PATTERN_START: return true;
	case PATTERN_SEQUENCE: return tree->first != NULL && is_anchored(tree->first);
	case PATTERN_REPEAT: return tree->min > 0 && is_anchored(tree->first);
	case PATTERN_CHOICE:
		for (n = tree->first; n != NULL; n = n->next)
			if (!is_anchored(n))
				return false;
		return true;
	default: return false;
	}
}

int
pattern_compile(
    struct slice text, struct zone *z, const struct pattern **ret, const char **ret_why)
{
	struct pattern *p = zone_alloc(z, 1, sizeof(*p));
	struct pattern_node *tree = NULL;
	struct zone trees = { NULL, 0 };
	int r;

	r = p == NULL ? -ENOMEM : pattern_parse(text, &trees, z, &tree, ret_why);
	if (r == 0) {
		p->anchored = is_anchored(tree);
		r = write_program(tree, z, p);
	}
	zone_finish(&trees);
	if (r == -E2BIG) {
		*ret_why = "repeats so much that it is too large";
		r = -EINVAL;
	}
	if (r == 0)
		*ret = p;
	return r;
}

size_t
pattern_size(const struct pattern *p)
{
	return p->n;
}

/* ---- matching ------------------------------------------------------------------------- */

struct matcher {
	const struct pattern *p;
	struct slice text;
	size_t at; /* bytes that were read */
	uint32_t
	    *marks; /* of each instruction: 1 + the last position at which it was reached */
	uint32_t *stack;
	uint32_t *now, *next; /* instructions that wait for a character */
	size_t nnow, nnext;
	int64_t *left;
};

size_t
pattern_scratch(size_t size)
{
	return 5 * size + 1;
}

static bool
is_word(struct slice text, size_t at)
{
	uint8_t c = at < text.n ? text.p[at] : 0;

	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (c >= 'a' && c <= 'z');
}

static bool
is_edge(const struct matcher *m)
{
	return is_word(m->text, m->at) != (m->at > 0 && is_word(m->text, m->at - 1));
}

/*
 * Goes on to all that can be reached from instruction `at` without a character; true if the
 * end of the program can.  The stack has room: each instruction that is marked leaves one
 * more on it than it took, at most.
 */
static bool
reach(struct matcher *m, uint32_t at)
{
	const uint32_t mark = (uint32_t)m->at + 1;
	const struct instruction *i;
	size_t n = 0;

	m->stack[n++] = at;
	while (n > 0) {
		at = m->stack[--n];
		if (m->marks[at] == mark)
			continue;
		m->marks[at] = mark;
		--*m->left;
		i = &m->p->program[at];
		switch (i->op) {
		case PATTERN_MATCH: return true;
		case PATTERN_SPLIT:
			m->stack[n++] = i->y;
			m->stack[n++] = i->x;
			break;
		case PATTERN_JUMP: m->stack[n++] = i->x; break;
		case PATTERN_START:
			if (m->at == 0)
				m->stack[n++] = at + 1;
			break;
		case PATTERN_END:
			if (m->at == m->text.n)
				m->stack[n++] = at + 1;
			break;
		case PATTERN_EDGE:
		case PATTERN_NO_EDGE:
			if (is_edge(m) == (i->op == PATTERN_EDGE))
				m->stack[n++] = at + 1;
			break;
		default: m->next[m->nnext++] = at; break;
		}
	}
	return false;
}

static uint32_t
take(struct matcher *m)
{
	const uint8_t *p = m->text.p + m->at;
	uint32_t c = *p;
	unsigned more = c < 0xc0 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;

	m->at += 1 + more;
	if (more > 0)
		c &= 0x3fu >> more;
	while (more-- > 0)
		c = c << 6 | (*++p & 0x3f);
	return c;
}

static bool
class_has(const struct pattern_class *c, uint32_t character)
{
	size_t low = 0, high = c->n, middle;

	if (character < 128)
		return c->ascii[character / 32] >> character % 32 & 1;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (character > c->ranges[middle].high)
			low = middle + 1;
		else if (character < c->ranges[middle].low)
			high = middle;
		else
			return true;
	}
	return false;
}

/* Reads one character in every state; true if the end of the program was reached. */
static bool
advance(struct matcher *m)
{
	uint32_t *swapped = m->now, character = take(m);
	const struct instruction *i;
	size_t k;

	m->now = m->next;
	m->nnow = m->nnext;
	m->next = swapped;
	m->nnext = 0;
	--*m->left;
	for (k = 0; k < m->nnow; k++) {
		i = &m->p->program[m->now[k]];
		if ((i->op == PATTERN_CHARACTER ? i->x == character
						: class_has(i->class, character)) &&
		    reach(m, m->now[k] + 1))
			return true;
	}
	return false;
}

int
pattern_match(const struct pattern *p, struct slice text, uint32_t *scratch, int64_t *left)
{
	struct matcher m = { p, text, 0, scratch, scratch + p->n, scratch + 3 * p->n + 1,
		scratch + 4 * p->n + 1, 0, 0, left };

	memset(m.marks, 0, p->n * sizeof(*m.marks));
	*left -= (int64_t)(p->n / 16);
	if (reach(&m, 0))
		return 1;
	while (m.at < text.n && (m.nnext > 0 || !p->anchored)) {
		if (*left < 0)
			return -E2BIG;
		if (advance(&m) || (!p->anchored && reach(&m, 0)))
			return 1;
	}
	return *left < 0 ? -E2BIG : 0;
}
