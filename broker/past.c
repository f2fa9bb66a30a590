#include "broker/past.h"

#include <stdlib.h>
#include <string.h>

#include "broker/operation.h"
#include "common/walk.h"

#define ERRNO_MAX 134 /* one more than the last that Linux has */

/* ---- what it was ---------------------------------------------------------------------- */

const char *
past_code(const struct past *p)
{
	return p->code[0] != '\0' ? p->code : ending_desc(p->ending)->operation_code;
}

enum operation_state
past_state(const struct past *p)
{
	bool refused =
	    strcmp(p->status, "failed") == 0 || strcmp(p->status, "denied") == 0;

	if (p->ending == ENDING_canceled || p->ending == ENDING_released)
		return operation_state_cancelled;
	if (p->ending == ENDING_deadline || p->ending == ENDING_drained)
		return operation_state_timed_out;
	if (past_code(p)[0] != '\0' || (p->kind == operation_kind_turn && refused))
		return operation_state_failed;
	return operation_state_succeeded;
}

/* ---- its cause ------------------------------------------------------------------------ */

/*
 * How a command ended, from what cause_detail() put in the record of it: "3",
 * "signal 9", "signal 11 core".  Returns false where it holds no such thing.
 */
static bool
past_exit(const struct past *p, const char **ret_name, int *ret_status)
{
	bool signaled = strncmp(p->detail, "signal ", 7) == 0;
	const char *digits = p->detail + (signaled ? 7 : 0);
	char *end;

	if (p->kind != operation_kind_command || p->ending != ENDING_completed)
		return false;
	*ret_name = signaled ? "signal" : "exitCode";
	*ret_status = (int)strtol(digits, &end, 10);
	return end != digits;
}

/* The layer and the errno, from "exec: No such file or directory". */
static bool
past_layer(const struct past *p, enum layer *ret_layer, int *ret_error)
{
	const char *text = strstr(p->detail, ": ");

	if (p->ending != ENDING_start_failed || text == NULL)
		return false;
	for (unsigned l = 0; l < LAYER_MAX; l++) {
		const char *name = layer_name(l);
		size_t n = strlen(name);

		*ret_layer = (enum layer)l;
		if ((size_t)(text - p->detail) != n || memcmp(p->detail, name, n) != 0)
			continue;
		for (*ret_error = 0; *ret_error < ERRNO_MAX; ++*ret_error)
			if (strcmp(strerror(*ret_error), text + 2) == 0)
				return true;
	}
	return false;
}

/*
 * As cause_pack() has it, out of what cause_detail() left: one member, whose name goes with
 * the cause.
 */
static void
past_detail(struct buf *b, const struct past *p, const struct ending_desc *e)
{
	const char *name = p->ending == ENDING_limit ? "name"
	    : p->ending == ENDING_seccomp	     ? "syscall"
	    : p->ending == ENDING_exited	     ? "code"
	    : p->ending == ENDING_signaled	     ? "signal" : "detail";
	bool number = p->ending == ENDING_exited || p->ending == ENDING_signaled;
	bool has = p->detail[0] != '\0';

	pack_map(b, 1u + has + (has && p->ending == ENDING_signaled));
	pack_str(b, "kind");
	pack_str(b, e->cause);
	if (!has)
		return;
	pack_str(b, name);
	if (number)
		pack_int(b, strtol(p->detail, NULL, 10));
	else
		pack_str(b, p->detail);
	if (p->ending == ENDING_signaled) {
		pack_str(b, "core");
		pack_bool(b, strstr(p->detail, " core") != NULL);
	}
}

static void
past_cause(struct buf *b, const struct past *p)
{
	const struct ending_desc *e = ending_desc(p->ending);
	enum layer layer;
	const char *name;
	int status;

	if (past_exit(p, &name, &status)) {
		pack_map(b, name[0] == 's' ? 3 : 2);
		pack_str(b, "kind");
		pack_str(b, name[0] == 's' ? "signaled" : "exited");
		pack_str(b, name[0] == 's' ? "signal" : "code");
		pack_int(b, status);
		if (name[0] == 's') {
			pack_str(b, "core");
			pack_bool(b, strstr(p->detail, " core") != NULL);
		}
		return;
	}
	if (past_layer(p, &layer, &status)) {
		pack_map(b, 3);
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "layer");
		pack_str(b, layer_name(layer));
		pack_str(b, "errno");
		pack_int(b, status);
		return;
	}
	past_detail(b, p, e);
}

static void
past_result(struct buf *b, const struct past *p)
{
	const char *name;
	int status;
	bool known;

	if (p->kind == operation_kind_turn) {
		pack_str(b, "turn");
		pack_map(b, 1);
		pack_str(b, "status");
		pack_str(b, p->status[0] != '\0' ? p->status : "failed");
		return;
	}
	if (p->kind != operation_kind_command) {
		pack_str(b, operation_kind_name(p->kind));
		pack_map(b, 0);
		return;
	}
	known = past_exit(p, &name, &status);
	pack_str(b, "command");
	pack_map(b, 1u + known);
	if (known) {
		pack_str(b, name);
		pack_int(b, status);
	}
	pack_str(b, "cause");
	past_cause(b, p);
}

enum event_type
past_pack(struct buf *b, const struct past *p)
{
	const struct ending_desc *e = ending_desc(p->ending);
	const char *code = past_code(p);
	bool completed = code[0] == '\0';

	pack_map(b, completed ? 1 : 4);
	if (!completed) {
		pack_str(b, "code");
		pack_str(b, code);
		pack_str(b, "message");
		pack_str(b, e->doc);
		pack_str(b, "cause");
		past_cause(b, p);
	}
	past_result(b, p);
	return completed ? event_type_completed : event_type_failed;
}
