/*
 * record: the records of the journal: what each says, and what all of an operation say.
 * digest.c makes the keyed digests in them.
 */
#ifndef BROKER_RECORD_H
#define BROKER_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/journal.h"
#include "common/protocol.h"

struct broker;
struct call;
struct decision;
struct exit_facts;
struct operation;

/* A record, from its init to its append. */
struct record {
	struct msg_record m; /* what it says of its own */
	const struct fields *common; /* what every record of its operation says; NULL: none */
	struct broker *broker;
	char id[40]; /* minted: m.id */
};

/* Packs what every record of `op` says.  Returns 0 or a negative errno. */
int record_common(struct fields *ret, const struct operation *op);
/* And what says which call of it, for a record that comes when both are gone. */
int record_call_common(struct fields *ret, const struct call *c);
/* With id, time, and what is common to the records of `op`, which may be NULL. */
void record_init(
    struct record *r, struct broker *b, const struct operation *op, const char *type);
void record_init_with(
    struct record *r, struct broker *b, const struct fields *common, const char *type);
/* As journal_append(). */
int record_append(
    const struct record *r, enum journal_class class, journal_fn *done, void *arg);
/* Why it was denied, the grant that came closest, and what that one lacks. */
void record_denial(struct record *r, const struct decision *d);
/* A text, or bytes, into an optional member of a struct msg_record. */
#define RECORD_TEXT(m, member, text) RECORD_SLICE(m, member, slice_of(text))
#define RECORD_SLICE(m, field, slice) ((m)->has_##field = true, (m)->field = (slice))

/* {kind: ..., detail} of an ended operation. */
void cause_pack(struct buf *b, const struct operation *op);
/* The detail of a cause in a few characters, for the record; "" for none. */
void cause_detail(const struct operation *op, char *buf, size_t cap);
/* The usage map. */
void usage_pack(struct buf *b, const struct exit_facts *exit);
/* The same for the record; nothing for a worker that was never born. */
void record_usage(struct msg_record *r, const struct exit_facts *exit);

#endif /* BROKER_RECORD_H */
