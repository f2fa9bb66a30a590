#include "broker/config_rows.h"

#include <string.h>

#include "common/walk.h"

/*
 * Caisson's own tool, which stands in every configuration and in none: a configuration may
 * not name one that begins like it.
 */

static void
pack_property(struct buf *b, const char *name, const char *type, uint64_t max)
{
	pack_str(b, name);
	pack_map(b, max > 0 ? 3 : 1);
	pack_str(b, "type");
	pack_str(b, type);
	if (max == 0)
		return;
	pack_str(b, "minLength");
	pack_uint(b, 1);
	pack_str(b, "maxLength");
	pack_uint(b, max);
}

/* The end of a closed object: what it must have, and that it has nothing else. */
static void
pack_closed(struct buf *b, const char *first, const char *second)
{
	pack_str(b, "required");
	pack_array(b, second != NULL ? 2 : 1);
	pack_str(b, first);
	if (second != NULL)
		pack_str(b, second);
	pack_str(b, "additionalProperties");
	pack_bool(b, false);
}

static void
pack_input(struct buf *b)
{
	pack_map(b, 4);
	pack_str(b, "type");
	pack_str(b, "object");
	pack_str(b, "properties");
	pack_map(b, 2);
	pack_property(b, "reason", "string", ESCALATION_REASON_MAX);
	pack_str(b, "request");
	pack_map(b, 4);
	pack_str(b, "type");
	pack_str(b, "object");
	pack_str(b, "properties");
	pack_map(b, 2);
	pack_property(b, "tool", "string", 256);
	pack_property(b, "arguments", "object", 0);
	pack_closed(b, "tool", "arguments");
	pack_closed(b, "reason", NULL);
}

int
config_own_tools(struct config_reader *r)
{
	struct config *c = r->config;
	struct config_tool *t = &c->tools[c->ntools];
	struct buf input = { 0 };

	t->name = ESCALATE_TOOL;
	t->description = "Asks a person, who may grant what is missing; ends the turn.  "
			 "With `request`, the exact call that is asked for.";
	t->namespace = ESCALATE_NAMESPACE;
	t->effect = effect_read; /* it changes nothing */
	t->read_only = true;
	t->action = ESCALATE_ACTION;
	t->resource = ESCALATE_NAMESPACE;
	t->own = true;
	pack_input(&input);
	if (input.failed)
		return config_out_of_memory(r);
	t->input = zone_bytes(&c->zone, buf_slice(&input));
	buf_finish(&input);
	if (t->input.p == NULL)
		return config_out_of_memory(r);
	c->ntools++;
	return config_compile_tool(r, t, ESCALATE_PATH);
}
