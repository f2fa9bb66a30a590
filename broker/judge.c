#include "broker/judge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/digest.h"

struct decision
judge_admission(const struct grant_set *set, const struct context *ctx, const char *runtime,
    uint64_t now_ms)
{
	struct requirement invoke = { .namespace = EXECUTION_NAMESPACE,
		.action = EXECUTION_ACTION, .path = { &runtime, 1 } };

	return authority_decide(set, ctx, &invoke, now_ms);
}

enum verdict
judge_offer(const struct grant_set *set, const struct context *ctx,
    const struct config_tool *tool, uint64_t now_ms)
{
	return authority_discover(set, ctx, tool->name, tool->resource, tool->action, now_ms);
}

bool
judge_resolve(struct digest *digest, const struct config_tool *tool, struct slice arguments,
    struct judgement *ret)
{
	int r;

	ret->status = call_status_failed;
	ret->code = "invalid_tool_arguments";
	ret->decided = false;
	memset(&ret->need, 0, sizeof ret->need);
	r = schema_check(tool->schema, arguments, ret->why, sizeof ret->why);
	if (r == 0)
		r = requirement_resolve(tool->path, tool->resource, tool->action, arguments,
		    &ret->need, &ret->code, ret->why, sizeof ret->why);
	if (r == 0)
		r = digest_value(digest, arguments, ret->digest);
	if (r < 0) {
		if (r == -ENOMEM)
			snprintf(ret->why, sizeof ret->why, "out of memory");
		if (strcmp(ret->code, "invalid_request") == 0)
			ret->status = call_status_denied;
		return false;
	}
	/* This call and no other is what an exact grant is for. */
	ret->need.requirement.tool = tool->name;
	ret->need.requirement.digest = ret->digest;
	if (tool->ceiling.n > 0 && !path_within(&ret->need.requirement.path, &tool->ceiling)) {
		ret->code = "invalid_tool_requirement";
		snprintf(ret->why, sizeof ret->why,
		    "the resource lies outside the tree that the tool is declared for");
		return false;
	}
	return true;
}

void
judge_call(const struct grant_set *set, struct digest *digest, const struct context *ctx,
    const struct config_tool *tool, struct slice arguments, uint64_t now_ms,
    struct judgement *ret)
{
	if (!judge_resolve(digest, tool, arguments, ret))
		return;
	ret->decided = true;
	ret->decision = authority_decide(set, ctx, &ret->need.requirement, now_ms);
	ret->status = ret->decision.verdict == VERDICT_allowed ? call_status_succeeded
							       : call_status_denied;
	ret->code = verdict_name(ret->decision.verdict);
}

/* Why a tool is in no catalogue; NULL: it is. */
static const char *
not_offered(const struct config *config, const struct grant_set *set, const struct context *ctx,
    const struct config_tool *tool, uint64_t now_ms)
{
	enum verdict offer;

	if (tool == NULL)
		return "not_registered";
	if (!config_is_enabled(config, tool))
		return "namespace_disabled";
	offer = judge_offer(set, ctx, tool, now_ms);
	return offer == VERDICT_allowed ? NULL : verdict_name(offer);
}

void
judge_beforehand(const struct config *config, const struct grant_set *set,
    struct digest *digest, const struct context *ctx, struct slice name,
    struct slice arguments, uint64_t now_ms, struct judgement *ret, const char **ret_cause)
{
	const struct config_tool *tool = config_tool(config, name);

	*ret_cause = not_offered(config, set, ctx, tool, now_ms);
	memset(ret, 0, sizeof *ret);
	if (tool != NULL)
		judge_call(set, digest, ctx, tool, arguments, now_ms, ret);
	if (*ret_cause != NULL) {
		ret->status = call_status_denied;
		ret->code = "tool_unavailable";
	} else if (ret->decided && ret->status != call_status_succeeded) {
		*ret_cause = decision_cause(&ret->decision);
	}
}

void
judge_finish(struct judgement *j)
{
	requirement_finish(&j->need);
}
