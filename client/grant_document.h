/*
 * grant_document: a grant as JSON, with the members that it has in a configuration:
 *
 *     { "id": "g-docs", "subject": "agent:a", "issuer": "human:operator",
 *       "capabilities": [ { "resource": { "namespace": "workspace", "path": "docs",
 *                                         "scope": "descendants", "owner": "human:o" },
 *                           "actions": ["read", "list"] } ],
 *       "constraints": { "notBefore": "2027-01-01T00:00:00Z", "expiresAt": "...", "maxUses": 1,
 *                        "delegationDepth": 0, "purposes": ["run"] } }
 *
 * Strict: a member that is not known, of another type or missing is an error that names it.
 * What the broker says of a new grant (its namespace, when it was issued) is not to be said,
 * nor its parent, which is a word of the command line.  Pure.
 */
#ifndef CLIENT_GRANT_DOCUMENT_H
#define CLIENT_GRANT_DOCUMENT_H

#include "common/protocol.h"

#define GRANT_DOCUMENT_ERROR_MAX 512

/*
 * Reads a packed value, which a walk has passed and which must live on, into `ret`; what is not
 * in it is left alone.  Capabilities and purposes are packed into `capabilities` and
 * `purposes`.  Returns 0; -EINVAL with `err` naming the member, -ENOMEM.
 */
int grant_document_read(struct slice document, struct msg_grant_issue *ret,
    struct buf *capabilities, struct buf *purposes, char err[GRANT_DOCUMENT_ERROR_MAX]);

/* Begins a packed capability: path and actions are to follow.  An empty owner is none. */
void grant_pack_head(
    struct buf *out, struct slice namespace, struct slice owner, struct slice scope);
/* Packs the segments of a/b or ".", the root, of `n` bytes.  NULL, or what is wrong with it. */
const char *grant_pack_path(struct buf *out, const char *text, size_t n);

#endif /* CLIENT_GRANT_DOCUMENT_H */
