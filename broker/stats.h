/*
 * stats: how often what has happened, for /metrics: the broker's rows of common/metrics.def.
 *
 * Numbers alone: whose, of what and with which words is nowhere in it.  Most are counted where
 * the record is told of them, so that both agree.  Pure, but for stats_read().
 */
#ifndef BROKER_STATS_H
#define BROKER_STATS_H

#include "common/protocol.h"

struct client;

struct stats {
#define METRIC_gateway(field)
#define METRIC_broker(field)		       uint64_t field;
#define METRIC(field, name, type, owner, help) METRIC_##owner(field)
#include "common/metrics.def"
#undef METRIC_gateway
#undef METRIC_broker
};

/* A record was appended. */
void stats_on_record(struct stats *s, const struct msg_record *m);
/* A request of a client's was refused. */
void stats_on_refusal(struct stats *s, const char *code);
/* Appends a map of all; 0 or -ENOMEM. */
int stats_pack(const struct stats *s, struct buf *b);

/* stats.read: brings the gauges up to date, and answers. */
void stats_read(struct client *c, uint32_t msgid);

#endif /* BROKER_STATS_H */
