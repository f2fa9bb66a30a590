/*
 * grants_private: what an operator does with grants: grants_issue.c, grants_revoke.c, and
 * grants_ask.c, which changes nothing.
 */
#ifndef BROKER_GRANTS_PRIVATE_H
#define BROKER_GRANTS_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/zone.h"
#include "common/protocol.h"

struct asker;
struct broker;
struct client;
struct escalation;
struct grant;
struct grant_fact;

/* Why it is no grant: a code, and which member breaks which rule. */
struct grant_refusal {
	const char *code;
	char text[512];
};

/* Fills it; returns -EINVAL. */
int grants_invalid(
    struct grant_refusal *ret, const char *code, const char *field, const char *rule);

/*
 * grants_exact.c: what tool, arguments and resolves of the request make of a grant that was
 * read but for them.  Returns 0, with the escalation that it resolves (NULL: none); -EINVAL
 * with `ret` filled; -ENOMEM.
 */
int grants_exact(struct broker *b, const struct msg_grant_issue *m, struct zone *z,
    struct grant *g, struct escalation **ret_escalation, struct grant_refusal *ret);
/* escalation.list. */
void grants_list_escalations(
    struct client *c, uint32_t msgid, const struct msg_escalation_list *m);

/* Refuses a request; the client may be gone (NULL). */
void grants_refuse(struct client *c, uint32_t msgid, const char *code, bool retryable,
    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* -ENOMEM, -ENOSPC and whatever else a grant can fail with that is no fault of its own. */
void grants_refuse_errno(struct client *c, uint32_t msgid, int error);

/* Appends the grant as grant.list has it. */
void grants_pack(
    const struct broker *b, const struct grant *g, uint64_t now_ms, struct buf *out);

/*
 * A grant that was refused for want of a record, and whose record may stand all the same: it
 * is taken back on record as soon as that works.  `escalation` is the ask that it would have
 * resolved, and that waits again; "": none.
 */
void grants_take_back(
    struct broker *b, struct grant_fact *f, const struct asker *by, const char *escalation);

void grants_issue(struct client *c, uint32_t msgid, const struct msg_grant_issue *m);
void grants_revoke(struct client *c, uint32_t msgid, const struct msg_grant_revoke *m);

/* Nobody waits for these any more. */
void grants_issue_forget(struct client *c);
void grants_revoke_forget(struct client *c);
void grants_issue_finish(struct broker *b);
void grants_revoke_finish(struct broker *b);

#endif /* BROKER_GRANTS_PRIVATE_H */
