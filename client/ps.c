#include "client/ps.h"

#include <stdlib.h>

#include "client/dial.h"
#include "client/inquiry.h"
#include "client/ps_render.h"
#include "client/render.h"
#include "common/util.h"

struct ps {
	const struct options *o;
	struct ps_table table;
	struct buf out;
};

static void
ps_on_ready(struct inquiry *q)
{
	inquiry_ask(q, MSG_process_list, &(struct msg_process_list){ 0 });
}

static void
ps_on_message(struct inquiry *q, const struct message *m)
{
	struct ps *ps = q->arg;

	if (m->type == MSG_process_row && ps->o->output == OUTPUT_JSONL)
		ps_render_jsonl(&m->u.process_row, &ps->out);
	else if (m->type == MSG_process_row)
		ps_table_add(&ps->table, &m->u.process_row);
	else if (m->type == MSG_process_list_reply)
		inquiry_end(q, 0);
}

int
ps_main(const struct options *o, int argc, char **argv)
{
	cleanup_free char *path = dial_path(o, "ps");
	struct ps ps = { .o = o };
	struct inquiry q = {
		.command = "ps",
		.lost = "its broker died; ask again",
		.on_ready = ps_on_ready,
		.on_message = ps_on_message,
		.arg = &ps,
	};
	int status;

	(void)argc;
	(void)argv;
	if (path == NULL)
		return EXIT_CANNOT;
	ps_table_init(&ps.table);
	status = inquiry_dial(&q, path);
	if (status == 0 && o->output != OUTPUT_JSONL)
		ps_table_render(&ps.table, o->verbose, &ps.out);
	if (status == 0 && !inquiry_print(&q, &ps.out))
		status = EXIT_CANNOT;
	ps_table_finish(&ps.table);
	buf_finish(&ps.out);
	return status;
}
