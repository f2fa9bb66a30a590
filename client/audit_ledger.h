/*
 * audit_ledger: one read-only ledger, started for one directory, and the questions to it.
 *
 * Owns the process and the link.  Blocking: a call returns when the answer has come or the
 * ledger is gone.
 */
#ifndef CLIENT_AUDIT_LEDGER_H
#define CLIENT_AUDIT_LEDGER_H

#include "common/protocol.h"

struct audit_ledger;

/*
 * Starts it over the directory `dir_fd` (with journal/ and perhaps index/ in it).  Returns
 * 0 or a negative errno: -ENOENT if there is no journal in it.
 */
int audit_ledger_start(int dir_fd, struct audit_ledger **ret);
/* Ends and reaps it.  NULL is allowed. */
void audit_ledger_end(struct audit_ledger *l);

/*
 * Asks and waits.  `fn` gets the reply; its slices live until it returns.  Returns 0; -EPROTO
 * if the ledger refused or is gone, and says why on standard error.
 */
typedef void audit_reply_fn(void *arg, const struct message *m);
int audit_ledger_ask(
    struct audit_ledger *l, enum msg_type type, const void *m, audit_reply_fn *fn, void *arg);

#endif /* CLIENT_AUDIT_LEDGER_H */
