/*
 * judge: what is decided of a tool call, before anything is recorded or spent: the schema of
 * its arguments, its exact requirement, authority, in the kernel's order.
 *
 * A call and the question whether one would be allowed (grant.why) come here, so that they
 * cannot disagree.  Reads configuration and grants, and changes nothing.
 */
#ifndef BROKER_JUDGE_H
#define BROKER_JUDGE_H

#include "broker/config.h"

struct digest;

struct judgement {
	enum call_status status; /* succeeded: it is allowed */
	const char *code;	 /* "allowed", or what the caller is told; static text */
	bool decided;		 /* authority was asked: `need` and `decision` count */
	struct resolved_requirement need; /* names this call, by the digest below: not moved */
	struct decision decision;
	uint8_t digest[AUTHORITY_DIGEST_BYTES]; /* keyed, of the canonical arguments (D-12) */
	/* not decided: which argument breaks which rule, never its value; `need` may count */
	char why[256];
};

/* May that context run this runtime at all (TU-13)? */
struct decision judge_admission(const struct grant_set *set, const struct context *ctx,
    const char *runtime, uint64_t now_ms);

/* Is this tool in the catalogue of a turn of that context?  VERDICT_allowed, or why not. */
enum verdict judge_offer(const struct grant_set *set, const struct context *ctx,
    const struct config_tool *tool, uint64_t now_ms);

/*
 * The first half: which exact requirement is it?  True: `ret->need` says, of this call.  False:
 * status, code and `why`.  judge_finish() releases it either way.
 */
bool judge_resolve(struct digest *digest, const struct config_tool *tool,
    struct slice arguments, struct judgement *ret);
/*
 * Judges a call of `tool`, which is offered, with packed `arguments`.  Fills `ret`, whose
 * grant lives in the set; judge_finish() releases the rest.
 */
void judge_call(const struct grant_set *set, struct digest *digest, const struct context *ctx,
    const struct config_tool *tool, struct slice arguments, uint64_t now_ms,
    struct judgement *ret);

/*
 * The same for whoever asks beforehand (grant.why): as a turn that is admitted now would be
 * told of a call of the tool `name`, which may be in no catalogue and not exist.  What the
 * call lacks is judged where there is such a tool, offered or not.  `ret_cause` is the
 * specific fact of a denial, NULL where there is none.
 */
void judge_beforehand(const struct config *config, const struct grant_set *set,
    struct digest *digest, const struct context *ctx, struct slice name,
    struct slice arguments, uint64_t now_ms, struct judgement *ret, const char **ret_cause);
/* Zeroes are allowed. */
void judge_finish(struct judgement *j);

#endif /* BROKER_JUDGE_H */
