/*
 * control: the link to the supervisor: descriptor 3.  It asks whether we live, brings links to
 * the broker and new configurations, and ends us.
 */
#ifndef GATEWAY_CONTROL_H
#define GATEWAY_CONTROL_H

#include "gateway/gateway.h"

/* Takes `fd`.  Returns 0 or a negative errno. */
int gateway_control_open(struct gateway *g, int fd);
void gateway_control_close(struct gateway *g);
/* Says CONTROL_READY. */
void gateway_control_ready(struct gateway *g);
/* The last connection has ended, or may have: settled if a shutdown was asked for. */
void gateway_control_settle(struct gateway *g);

#endif /* GATEWAY_CONTROL_H */
