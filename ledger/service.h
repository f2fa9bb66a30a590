/*
 * service: the ledger on its loop: control link, links of broker and clients, the timer
 * that follows the journal.
 */
#ifndef LEDGER_SERVICE_H
#define LEDGER_SERVICE_H

#include "ledger/ledger.h"

struct event_base;
struct service;

/*
 * Serves `l`.  `control_fd` is the control link, or for a read-only ledger the one link
 * there is; it is taken.  Returns NULL with errno set.
 */
struct service *service_create(struct event_base *base, struct ledger *l, int control_fd);
/* After the loop has ended. */
void service_destroy(struct service *s);

#endif /* LEDGER_SERVICE_H */
