#include "common/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INBOX_FIRST (16u << 10) /* bytes; most frames of most links fit */
#define INBOX_KEEP  LINK_READ_MAX /* bytes of an empty buffer that are worth keeping */
#define WORD	    4 /* bytes of the length word */

/* Most of many peers are silent at a time: one empty buffer serves them all. */
static struct inbox spare;

void
inbox_finish(struct inbox *in)
{
	free(in->p);
	*in = (struct inbox) { 0 };
}

void
inbox_rest(struct inbox *in)
{
	if (in->p == NULL || inbox_holds(in))
		return;
	if (spare.p == NULL) {
		spare = *in;
		spare.start = spare.end = 0;
		*in = (struct inbox) { 0 };
	} else {
		inbox_finish(in);
	}
}

bool
inbox_holds(const struct inbox *in)
{
	return in->end > in->start;
}

static size_t
frame_length(const struct inbox *in)
{
	return protocol_length(in->p + in->start);
}

/* Bytes that the buffer should hold: more where frames are large or many wait. */
static size_t
wanted_cap(const struct inbox *in)
{
	size_t held = in->end - in->start, cap = in->cap > 0 ? in->cap : INBOX_FIRST;

	if (held >= WORD && frame_length(in) + WORD > cap)
		return frame_length(in) + WORD;
	if (in->full && cap < LINK_READ_MAX)
		return cap * 2 < LINK_READ_MAX ? cap * 2 : LINK_READ_MAX;
	return held == 0 && cap > INBOX_KEEP ? INBOX_KEEP : cap;
}

int
inbox_room(struct inbox *in, uint8_t **ret_p, size_t *ret_n)
{
	size_t held, cap, room;
	uint8_t *p;

	if (in->p == NULL) {
		*in = spare;
		spare = (struct inbox) { 0 };
	}
	held = in->end - in->start;
	cap = wanted_cap(in);
	if (held > 0 && in->start > 0)
		memmove(in->p, in->p + in->start, held);
	in->start = 0;
	in->end = held;
	if (cap != in->cap) {
		p = realloc(in->p, cap);
		if (p == NULL)
			return -ENOMEM;
		in->p = p;
		in->cap = cap;
	}
	room = in->cap - in->end;
	*ret_p = in->p + in->end;
	*ret_n = room < LINK_READ_MAX ? room : LINK_READ_MAX;
	return 0;
}

void
inbox_filled(struct inbox *in, size_t n, size_t room)
{
	in->end += n;
	in->full = n == room;
}

int
inbox_take(struct inbox *in, struct slice *ret)
{
	size_t held = in->end - in->start, n;

	if (held < WORD)
		return 0;
	n = frame_length(in);
	if (n == 0 || n > FRAME_MAX)
		return -EPROTO;
	if (held - WORD < n)
		return 0;
	*ret = (struct slice) { in->p + in->start + WORD, n };
	in->start += WORD + n;
	return 1;
}
