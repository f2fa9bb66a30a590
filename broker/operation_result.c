#include "broker/operation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker/record.h"
#include "broker/turn.h"
#include "common/limits.h"
#include "common/walk.h"

/* What an operation became: the body of its terminal event. */

static void
message_pack(struct buf *b, const struct operation *op, bool recorded)
{
	const struct ending_desc *e =
	    ending_desc(recorded ? op->ending : ENDING_audit_unavailable);
	const struct limit_desc *limit =
	    op->ending == ENDING_limit ? limit_desc(op->exit.limit) : NULL;
	char detail[256], text[512];

	cause_detail(op, detail, sizeof detail);
	if (recorded && op->code != NULL)
		snprintf(text, sizeof text, "%s", op->failure);
	else if (recorded && limit != NULL)
		snprintf(text, sizeof text, "%s: %s", limit->name, limit->text);
	else if (recorded && op->ending == ENDING_start_failed && op->layer == LAYER_DEATHS)
		snprintf(text, sizeof text,
		    "%" PRIu64 " processes of this runtime died as they started; it is started "
		    "again within %d s: the log of caissond and caisson audit say how they "
		    "ended",
		    op->deaths, START_WINDOW_MS / 1000);
	else if (!recorded)
		snprintf(text, sizeof text, "%s; what it became is here, and nowhere on record",
		    e->doc);
	else
		snprintf(text, sizeof text, "%s%s%s%s", e->doc, detail[0] != '\0' ? ": " : "",
		    op->ending == ENDING_exited ? "status " : "", detail);
	pack_str(b, text);
}

static void
command_pack(struct buf *b, const struct operation *op)
{
	const struct exit_facts *x = &op->exit;
	bool known = x->kind == EXIT_EXITED || x->kind == EXIT_SIGNALED;
	/* As a shell says it of a program that it cannot run. */
	bool refused = op->sandbox != NULL && op->ending == ENDING_start_failed &&
	    op->layer == LAYER_EXEC;

	pack_map(b, 3u + (known || refused));
	if (refused) {
		pack_str(b, "exitCode");
		pack_int(b, op->error == ENOENT ? 127 : 126);
	} else if (known) {
		pack_str(b, x->kind == EXIT_EXITED ? "exitCode" : "signal");
		pack_int(b, x->status);
	}
	pack_str(b, "cause");
	cause_pack(b, op);
	pack_str(b, "timedOut");
	pack_bool(b, op->ending == ENDING_deadline);
	pack_str(b, "usage");
	usage_pack(b, x);
}

static void
result_pack(struct buf *b, const struct operation *op)
{
	if (op->turn != NULL) {
		pack_str(b, "turn");
		turn_pack_result(op, b);
	} else if (op->kind == operation_kind_command) {
		pack_str(b, "command");
		command_pack(b, op);
	} else {
		pack_str(b, operation_kind_name(op->kind));
		if (op->result.n > 0)
			pack_raw(b, buf_slice(&op->result));
		else
			pack_map(b, 0);
	}
}

const char *
operation_code(const struct operation *op)
{
	return op->code != NULL ? op->code : ending_desc(op->ending)->operation_code;
}

void
operation_pack_terminal(
    struct buf *b, const struct operation *op, bool completed, bool recorded)
{
	const struct ending_desc *e =
	    ending_desc(recorded ? op->ending : ENDING_audit_unavailable);
	/* A command has it with its result; a turn, if its worker's end was what ended it, and
	 * that served no other. */
	bool used = op->turn != NULL && op->exit.kind != EXIT_NONE && !op->used_before;

	if (completed) {
		pack_map(b, 1);
		result_pack(b, op);
		return;
	}
	pack_map(b, 4u + !recorded + used);
	pack_str(b, "code");
	pack_str(b, recorded ? operation_code(op) : e->operation_code);
	pack_str(b, "message");
	message_pack(b, op, recorded);
	pack_str(b, "cause");
	if (recorded) {
		cause_pack(b, op);
	} else {
		pack_map(b, 1);
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "recorded");
		pack_bool(b, false);
	}
	if (used) {
		pack_str(b, "usage");
		usage_pack(b, &op->exit);
	}
	result_pack(b, op);
}
