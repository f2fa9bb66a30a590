/*
 * past: how an operation ended, as far as the record has it: what is told to who asks when the
 * terminal event itself, which is content, is not kept any more (D-11, D-16).  Pure.
 */
#ifndef BROKER_PAST_H
#define BROKER_PAST_H

#include "common/endings.h"
#include "common/protocol.h"

struct past {
	enum operation_kind kind;
	enum ending ending; /* ENDING_none: it has not ended */
	char code[32]; /* of a failure that says more than its ending; "": none does */
	char status[32]; /* of a turn */
	char detail[64]; /* as cause_detail() has it */
};

/* Of one that has ended: the code of its `failed` event, "" for one that is completed. */
const char *past_code(const struct past *p);
enum operation_state past_state(const struct past *p);
/* Appends the body of its terminal event; returns that one's type. */
enum event_type past_pack(struct buf *b, const struct past *p);

#endif /* BROKER_PAST_H */
