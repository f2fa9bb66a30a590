/*
 * status: from the code of a refusal, as it stands on a link, to the status of an HTTP answer.
 */
#ifndef GATEWAY_STATUS_H
#define GATEWAY_STATUS_H

#include "common/protocol.h"

/* 400..599; 500 for a code that is none of the table's. */
unsigned status_of(struct slice code);

#endif /* GATEWAY_STATUS_H */
