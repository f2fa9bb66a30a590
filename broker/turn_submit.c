#include "broker/turn_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/authority/text.h"
#include "broker/config.h"
#include "broker/operation.h"
#include "common/walk.h"

/* What a submission asks of a turn: its form, and the context that it claims. */

#define TOOLS_MAX     512 /* requested ones */
#define NAME_MAX_SIZE 256 /* bytes */
#define PURPOSE_MAX   512 /* bytes */

/* ---- form (TU-10) --------------------------------------------------------------------- */

/* A text of 1 to `max` bytes without control characters. */
static bool
is_plain(struct slice s, size_t max)
{
	char text[PURPOSE_MAX + 1];

	if (s.n > max || s.n >= sizeof text || memchr(s.p, '\0', s.n) != NULL)
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return text_is_plain(text, max);
}

bool
turn_trace_is_plain(struct slice trace)
{
	return is_plain(trace, NAME_MAX_SIZE);
}

/* A list of at most `max` names, none twice? */
static bool
are_names(struct slice list, size_t max)
{
	struct slice in = list, seen[TOOLS_MAX];
	struct value head = value_next(&in);
	uint32_t i, k;

	if (head.count > max || max > TOOLS_MAX)
		return false;
	for (i = 0; i < head.count; i++) {
		struct value v = value_skip(&in);

		if (v.type != VALUE_STR || !is_plain(v.bytes, NAME_MAX_SIZE))
			return false;
		for (k = 0; k < i; k++)
			if (slice_equal(seen[k], v.bytes))
				return false;
		seen[i] = v.bytes;
	}
	return true;
}

static uint32_t
nodes_of(bool has, struct slice value)
{
	uint32_t nodes = 0;
	unsigned depth;

	if (has)
		value_measure(value, &depth, &nodes);
	return nodes;
}

const char *
turn_submit_fault(const struct msg_operation_submit *m)
{
	if (m->kind != operation_kind_turn &&
	    (m->has_tools || m->has_namespaces || m->has_purpose || m->has_actor ||
		m->has_receiver || m->has_messageTrace || m->has_messagePurpose ||
		m->has_state || m->has_metadata))
		return "tools, namespaces, purpose, state and what is said of a message are "
		       "for a turn, and this is a command";
	if (m->has_tools && !are_names(m->tools, TOOLS_MAX))
		return "tools: is no list of at most 512 names, each of them once";
	if (m->has_namespaces && !are_names(m->namespaces, TOOL_NAMESPACES_MAX))
		return "namespaces: is no list of at most 256 names, each of them once";
	if (m->has_purpose && !is_plain(m->purpose, PURPOSE_MAX))
		return "purpose: is no text of 1 to 512 bytes without control characters";
	if (m->has_trace && !is_plain(m->trace, NAME_MAX_SIZE))
		return "trace: is no text of 1 to 256 bytes without control characters";
	/* Each of them is bounded; the runtime gets all of them, and more, in one frame. */
	if (nodes_of(m->has_message, m->message) + nodes_of(m->has_state, m->state) +
		nodes_of(m->has_metadata, m->metadata) > PAYLOAD_NODES_MAX)
		return "message, state and metadata: have more than 32768 values";
	return NULL;
}

/* ---- context (TU-11) ------------------------------------------------------------------ */

const char *
turn_context_fault(const struct operation *op, const struct msg_operation_submit *m)
{
	const struct turn *t = op->turn;

	if (m->has_actor && !slice_is(m->actor, t->agent))
		return "actor_mismatch";
	if (m->has_receiver && !slice_is(m->receiver, t->agent))
		return "receiver_mismatch";
	if ((m->has_messageTrace && !slice_is(m->messageTrace, op->trace)) ||
	    (m->has_messagePurpose && !slice_is(m->messagePurpose, t->context.purpose)))
		return "message_context_mismatch";
	return NULL;
}

/* ---- what it narrows ------------------------------------------------------------------ */

static bool
is_listed(struct slice list, const char *name)
{
	struct value head = value_next(&list);

	for (uint32_t i = 0; i < head.count; i++)
		if (slice_is(value_skip(&list).bytes, name))
			return true;
	return false;
}

int
turn_narrow(struct turn *t, const struct config *config, const struct msg_operation_submit *m)
{
	struct slice list = m->tools;
	const struct config_tool *tool;
	struct value head;

	if (!m->has_tools && !m->has_namespaces)
		return 0;
	t->asked = calloc(config->ntools + 1, sizeof *t->asked);
	if (t->asked == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < config->ntools; i++)
		t->asked[i] = !m->has_tools;
	if (m->has_tools) {
		head = value_next(&list);
		for (uint32_t i = 0; i < head.count; i++) {
			tool = config_tool(config, value_skip(&list).bytes);
			if (tool != NULL)
				t->asked[tool - config->tools] = true;
		}
	}
	for (size_t i = 0; m->has_namespaces && i < config->ntools; i++)
		if (t->asked[i] && !is_listed(m->namespaces, config->tools[i].namespace))
			t->asked[i] = false;
	return 0;
}
