#include "client/grant.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/dial.h"
#include "client/grant_render.h"
#include "client/grant_words.h"
#include "client/inquiry.h"
#include "client/render.h"
#include "client/text.h"
#include "common/clock.h"
#include "common/util.h"

#define EXIT_DENIED 3	 /* as a turn that is */

struct grant {
	const struct options *o;
	struct grant_ask ask;
	struct grant_table table;
	struct cells asks; /* of list --pending */
	bool jsonl, colour;
	struct buf out;
};

static void
grant_on_ready(struct inquiry *q)
{
	struct grant *g = q->arg;

	inquiry_ask(q, g->ask.type, &g->ask.m);
}

/* Prints what there is, and ends unless that failed or there is more to come. */
static void
print(struct inquiry *q, int status, bool more)
{
	struct grant *g = q->arg;

	if (!inquiry_print(q, &g->out))
		inquiry_end(q, EXIT_CANNOT);
	else if (!more)
		inquiry_end(q, status);
}

static void
handle_list(struct inquiry *q, const struct message *m)
{
	const struct msg_grant_list_reply *r = &m->u.grant_list_reply;
	struct grant *g = q->arg;
	bool more = r->next != 0;

	if (g->jsonl)
		grant_render_list_jsonl(r->grants, &g->out);
	else
		grant_table_add(&g->table, r->grants);
	if (!more && !g->jsonl)
		grant_table_render(&g->table, g->o->verbose, &g->out);
	g->ask.m.list.cursor = r->next;
	print(q, 0, more);
	if (more && !q->ended)
		inquiry_ask(q, MSG_grant_list, &g->ask.m.list);
	else if (cells_rows(&g->table.cells) == 0 && !g->jsonl && !g->o->quiet)
		text_say("%s: there are none", q->command);
}

static void
handle_asks(struct inquiry *q, const struct message *m)
{
	const struct msg_escalation_list_reply *r = &m->u.escalation_list_reply;
	struct grant *g = q->arg;
	bool more = r->next != 0;
	size_t i;

	if (g->jsonl)
		grant_render_asks_jsonl(r->escalations, &g->out);
	else
		grant_asks_add(&g->asks, r->escalations);
	if (!more && cells_rows(&g->asks) > 0)
		cells_render_head(&g->asks, &g->out);
	for (i = 0; !more && i < cells_rows(&g->asks); i++)
		cells_render_row(&g->asks, i, &g->out);
	g->ask.m.escalations.cursor = r->next;
	print(q, 0, more);
	if (more && !q->ended)
		inquiry_ask(q, MSG_escalation_list, &g->ask.m.escalations);
	else if (cells_rows(&g->asks) == 0 && !g->jsonl && !g->o->quiet)
		text_say("%s: there are none", q->command);
}

static void
handle_issued(struct inquiry *q, const struct message *m)
{
	struct grant *g = q->arg;

	if (!g->jsonl)
		grant_render_issued(&m->u.grant_issue_reply, g->o->verbose, &g->out);
	print(q, 0, false);
}

static void
handle_revoked(struct inquiry *q, const struct message *m)
{
	struct grant *g = q->arg;

	if (!g->jsonl)
		grant_render_revoked(g->ask.m.revoke.id, &m->u.grant_revoke_reply, &g->out);
	print(q, 0, false);
}

static void
handle_why(struct inquiry *q, const struct message *m)
{
	const struct msg_grant_why_reply *r = &m->u.grant_why_reply;
	struct grant *g = q->arg;

	if (!g->jsonl)
		grant_render_why(r, g->colour, &g->out);
	print(q, grant_is_allowed(r) ? 0 : EXIT_DENIED, false);
}

static const struct {
	enum msg_type type;
	void (*handle)(struct inquiry *q, const struct message *m);
} handlers[] = {
	{ MSG_grant_list_reply, handle_list },
	{ MSG_escalation_list_reply, handle_asks },
	{ MSG_grant_issue_reply, handle_issued },
	{ MSG_grant_revoke_reply, handle_revoked },
	{ MSG_grant_why_reply, handle_why },
};

static void
grant_on_message(struct inquiry *q, const struct message *m)
{
	struct grant *g = q->arg;
	size_t i;

	for (i = 0; i < countof(handlers); i++) {
		if (handlers[i].type != m->type)
			continue;
		if (g->jsonl && m->type != MSG_grant_list_reply &&
		    m->type != MSG_escalation_list_reply)
			grant_render_jsonl(m->type, &m->u, &g->out);
		handlers[i].handle(q, m);
	}
}

static int
ask(struct inquiry *q, int argc, char **argv)
{
	const struct grant *g = q->arg;
	cleanup_free char *path = NULL;

	if (g->o->has_config)
		return inquiry_start(q, argc, argv);
	path = dial_path(g->o, "grant");
	return path != NULL ? inquiry_dial(q, path) : EXIT_CANNOT;
}

int
grant_main(const struct options *o, int argc, char **argv)
{
	struct grant g = { .o = o, .jsonl = o->output == OUTPUT_JSONL };
	struct inquiry q = {
		.lost = "its broker died; ask again",
		.on_ready = grant_on_ready,
		.on_message = grant_on_message,
		.arg = &g,
	};
	char err[GRANT_ERROR_MAX], command[16];
	int status = EXIT_CANNOT;

	g.colour = !g.jsonl && isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL;
	grant_table_init(&g.table);
	grant_asks_init(&g.asks);
	if (grant_words_read(o, clock_wall_ms(), &g.ask, err) < 0) {
		text_say("%s", err);
	} else {
		snprintf(command, sizeof(command), "grant %s", grant_verb_name(g.ask.verb));
		q.command = command;
		if (g.ask.type == MSG_grant_issue)
			q.lost = "its broker died, and may have issued it: "
				 "see caisson grant list";
		status = ask(&q, argc, argv);
	}
	grant_table_finish(&g.table);
	cells_finish(&g.asks);
	grant_ask_finish(&g.ask);
	buf_finish(&g.out);
	return status;
}
