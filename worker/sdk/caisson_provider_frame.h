/*
 * caisson_provider_frame: what provider and broker say to each other, as bytes.  Pure; for
 * caisson_provider.c, and copied with it.
 */
#ifndef CAISSON_PROVIDER_FRAME_H
#define CAISSON_PROVIDER_FRAME_H

#include "worker/sdk/caisson.h"
#include "worker/sdk/caisson_provider.h"

enum caisson_provider_said {
	CAISSON_PROVIDER_HELLO, /* the answer to ours */
	CAISSON_PROVIDER_CALL,
	CAISSON_PROVIDER_CANCEL,
};

struct caisson_provider_frame {
	enum caisson_provider_said said;
	uint32_t msgid;			   /* of a call */
	struct caisson_value id;	   /* the broker's name of the call */
	struct caisson_provider_call call; /* of a call, without `private` */
};

/* What `bytes` say, borrowed; -EPROTO for anything that is exactly none of these. */
int caisson_provider_parse(struct caisson_value bytes, struct caisson_provider_frame *ret);

/* Whole frames, appended to an empty writer, but for the length in its first four bytes. */
void caisson_provider_put_hello(struct caisson_writer *w, const char *name);
void caisson_provider_put_output(struct caisson_writer *w, uint32_t msgid,
    struct caisson_value id, struct caisson_value output);
void caisson_provider_put_error(struct caisson_writer *w, uint32_t msgid,
    struct caisson_value id, const char *code, const char *message, bool retryable);

/* May it be an output: whole, not too large, not too deep, not of too many values? */
bool caisson_provider_fits(struct caisson_value output);

#endif /* CAISSON_PROVIDER_FRAME_H */
