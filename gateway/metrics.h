/*
 * metrics: Prometheus text, out of the rows of common/metrics.def.
 */
#ifndef GATEWAY_METRICS_H
#define GATEWAY_METRICS_H

#include "gateway/gateway.h"

/* What later on cannot be asked for: when this process began, how many descriptors it may have,
 * and how much memory it has, whose file stays open.  Before the process confines itself. */
void metrics_init(void);

/*
 * Appends all numbers.  `broker`: the map of stats.read; NULL if the broker does not answer:
 * its numbers are left out then, and caisson_broker_up is 0.
 */
void metrics_write(struct buf *out, const struct gateway *g, const struct slice *broker);

#endif /* GATEWAY_METRICS_H */
