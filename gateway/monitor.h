/*
 * monitor: what the monitor's listener serves: /healthz, /readyz and /metrics, and nothing
 * else.
 *
 * /healthz is 200 as long as this process lives.  /readyz is 200 if the broker answers now, 503
 * if it does not within 2 s; /metrics is Prometheus text, with the broker's numbers if it
 * answers. The monitor has one link to the broker of its own, on which stats.read needs no
 * proof.
 */
#ifndef GATEWAY_MONITOR_H
#define GATEWAY_MONITOR_H

#include "gateway/gateway.h"

extern const struct conn_handler monitor_handler;

struct monitor *monitor_create(struct gateway *g); /* NULL: out of memory */
void monitor_stop(struct monitor *m); /* its link ends when the loop comes round */
void monitor_destroy(struct monitor *m); /* after that; NULL is allowed */

#endif /* GATEWAY_MONITOR_H */
