/*
 * monitor: what the monitor's listener serves: /healthz, /readyz and /metrics, and nothing else.
 *
 * /healthz is 200 as long as this process lives.  /readyz is 200 if the broker answers now, 503 if
 * it does not; /metrics is Prometheus text, with the broker's numbers if it answers.
 */
#ifndef GATEWAY_MONITOR_H
#define GATEWAY_MONITOR_H

#include "gateway/gateway.h"

extern const struct conn_handler monitor_handler;

#endif /* GATEWAY_MONITOR_H */
