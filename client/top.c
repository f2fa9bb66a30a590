#include "client/top.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "client/cells.h"
#include "client/dial.h"
#include "client/inquiry.h"
#include "client/ps_render.h"
#include "client/render.h"
#include "client/text.h"
#include "common/clock.h"
#include "common/util.h"
#include "common/walk.h"

#define INTERVAL_MS 2000
#define ANSWER_MS   30000

/* One process in one sample; `name` is its own. */
struct sampled {
	const char *role;
	char *name; /* "" for none */
	uint64_t session, since, cpu_us, resident_bytes;
	uint32_t pid, processes;
	bool has_session;
	double cpu; /* of one processor, since the sample before */
};

struct samples {
	struct sampled *item;
	size_t n, cap;
	uint64_t at_ms;
};

struct top {
	const struct options *o;
	struct inquiry *q;
	struct samples now, before;
	struct buf out; /* JSON lines */
	bool terminal, jsonl;
	unsigned rows; /* of the terminal; 0: any number */
	uint64_t left; /* samples to come; 0: any number */
};

static const char *const heads[] = { "ROLE", "NAME", "SESSION", "PID", "PROCS", "CPU", "MEMORY" };

static void
samples_clear(struct samples *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->item[i].name);
	s->n = 0;
}

static bool
samples_add(struct samples *s, const struct msg_process_row *row)
{
	struct sampled *x;

	if (s->n == s->cap) {
		size_t cap = s->cap == 0 ? 64 : 2 * s->cap;

		x = reallocarray(s->item, cap, sizeof *x);
		if (x == NULL)
			return false;
		s->item = x;
		s->cap = cap;
	}
	x = &s->item[s->n];
	*x = (struct sampled){ .role = ps_role(row->role),
		.name = row->has_id ? strndup((const char *)row->id.p, row->id.n) : strdup(""),
		.session = row->session,
		.has_session = row->has_session,
		.since = row->since,
		.pid = (uint32_t)row->pid,
		.processes = row->has_processes ? (uint32_t)row->processes : 0,
		.cpu_us = row->has_cpuUs ? row->cpuUs : 0,
		.resident_bytes = row->has_residentBytes ? row->residentBytes : 0 };
	s->n += x->name != NULL;
	return x->name != NULL;
}

static int
by_birth(const void *a, const void *b)
{
	const struct sampled *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->since < y->since ? -1 : x->since > y->since;
}

static int
by_use(const void *a, const void *b)
{
	const struct sampled *x = a, *y = b;

	if (x->cpu != y->cpu)
		return x->cpu > y->cpu ? -1 : 1;
	if (x->resident_bytes != y->resident_bytes)
		return x->resident_bytes > y->resident_bytes ? -1 : 1;
	return by_birth(a, b);
}

/* What each has used since the sample before, or since its own beginning.  Both are sorted by
 * birth. */
static void
compare(struct samples *now, const struct samples *before)
{
	double ms = (double)(now->at_ms - before->at_ms);

	for (size_t i = 0; i < now->n; i++) {
		struct sampled *x = &now->item[i];
		const struct sampled *old = before->n == 0
		    ? NULL
		    : bsearch(x, before->item, before->n, sizeof *x, by_birth);
		uint64_t used = old != NULL && old->cpu_us <= x->cpu_us ? x->cpu_us - old->cpu_us : 0;

		if (old == NULL && before->at_ms != 0)
			used = x->cpu_us;
		x->cpu = before->at_ms == 0 || ms <= 0 ? 0 : (double)used / 10 / ms;
	}
}

/* ---- on a terminal ----------------------------------------------------------------------- */

static void
add_head(struct top *t, struct buf *out)
{
	uint64_t resident = 0;
	double cpu = 0;

	for (size_t i = 0; i < t->now.n; i++) {
		cpu += t->now.item[i].cpu;
		resident += t->now.item[i].resident_bytes;
	}
	if (t->terminal)
		buf_add(out, "\033[H\033[J", 6);
	text_addf(out, "caisson top  ");
	text_add_time(out, clock_wall_ms(), "%FT%TZ", false);
	text_addf(out, "  processes %zu  cpu %.1f%%  memory %.1fMiB\n\n", t->now.n, cpu,
	    (double)resident / (1 << 20));
}

static void
add_table(struct top *t, struct buf *out)
{
	struct cells cells = { .heads = heads, .columns = countof(heads) };
	size_t shown = t->rows > 4 && t->now.n > t->rows - 4 ? t->rows - 4 : t->now.n;

	for (size_t i = 0; i < shown; i++) {
		const struct sampled *x = &t->now.item[i];

		cells_add_text(&cells, true, slice_of(x->role));
		cells_add_text(&cells, x->name[0] != '\0', slice_of(x->name));
		cells_add_uint(&cells, x->has_session, x->session);
		cells_add_uint(&cells, x->pid > 0, x->pid);
		cells_add_uint(&cells, x->processes > 0, x->processes);
		text_addf(&cells.text, "%.1f%%", x->cpu);
		cells_end(&cells);
		text_addf(&cells.text, "%.1fMiB", (double)x->resident_bytes / (1 << 20));
		cells_end(&cells);
	}
	cells_render_head(&cells, out);
	for (size_t i = 0; i < shown; i++)
		cells_render_row(&cells, i, out);
	cells_finish(&cells);
}

static void
show(struct top *t)
{
	struct samples before = t->before;
	struct buf out = { 0 };

	t->now.at_ms = clock_ms();
	qsort(t->now.item, t->now.n, sizeof *t->now.item, by_birth);
	compare(&t->now, &before);
	t->before = t->now;
	if (t->jsonl) {
		if (!inquiry_print(t->q, &t->out))
			inquiry_end(t->q, EXIT_CANNOT);
	} else {
		/* A copy is shown by use; what is kept stays sorted by birth. */
		struct sampled *sorted = calloc(t->now.n + 1, sizeof *sorted);

		if (sorted != NULL && t->now.n > 0)
			memcpy(sorted, t->now.item, t->now.n * sizeof *sorted);
		t->now.item = sorted;
		if (sorted == NULL) {
			t->now.n = 0;
		} else {
			qsort(sorted, t->now.n, sizeof *sorted, by_use);
			add_head(t, &out);
			add_table(t, &out);
		}
		if (!inquiry_print(t->q, &out))
			inquiry_end(t->q, EXIT_CANNOT);
		free(sorted);
	}
	t->now = (struct samples){ 0 };
	samples_clear(&before);
	free(before.item);
}

/* ---- again and again --------------------------------------------------------------------- */

static void
ask(struct top *t)
{
	const struct timeval late = { ANSWER_MS / 1000, 0 };

	event_add(t->q->late, &late);
	inquiry_ask(t->q, MSG_process_list, &(struct msg_process_list){ 0 });
}

static void
top_on_again(evutil_socket_t fd, short events, void *arg)
{
	struct top *t = arg;

	(void)fd;
	(void)events;
	if (!t->q->ended)
		ask(t);
}

static void
top_on_ready(struct inquiry *q)
{
	ask(q->arg);
}

static void
top_on_message(struct inquiry *q, const struct message *m)
{
	struct top *t = q->arg;
	uint64_t ms = t->o->has_interval ? t->o->interval_ms : INTERVAL_MS;
	const struct timeval pause = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };

	if (m->type == MSG_process_row) {
		if (t->jsonl)
			ps_render_jsonl(&m->u.process_row, &t->out);
		if (!samples_add(&t->now, &m->u.process_row))
			inquiry_fail(q, "out of memory");
	} else if (m->type == MSG_process_list_reply) {
		event_del(q->late);
		show(t);
		if (t->left > 0 && --t->left == 0)
			inquiry_end(q, 0);
		else if (!q->ended &&
		    event_base_once(q->base, -1, EV_TIMEOUT, top_on_again, t, &pause) < 0)
			inquiry_fail(q, "out of memory");
	}
}

int
top_main(const struct options *o, int argc, char **argv)
{
	cleanup_free char *path = dial_path(o, "top");
	struct winsize size = { 0 };
	struct top t = { .o = o, .left = o->samples };
	struct inquiry q = {
		.command = "top",
		.lost = "its broker died; start again",
		.on_ready = top_on_ready,
		.on_message = top_on_message,
		.arg = &t,
	};
	int status;

	(void)argc;
	(void)argv;
	if (path == NULL)
		return EXIT_CANNOT;
	t.q = &q;
	t.terminal = isatty(STDOUT_FILENO);
	t.jsonl = o->has_output ? o->output == OUTPUT_JSONL : !t.terminal;
	if (t.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		t.rows = size.ws_row;
	status = inquiry_dial(&q, path);
	samples_clear(&t.now);
	samples_clear(&t.before);
	free(t.now.item);
	free(t.before.item);
	buf_finish(&t.out);
	return status;
}
