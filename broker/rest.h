/*
 * rest: the worker of a session's turns between two of them (D-1).
 *
 * A worker whose hello said `turns`, and whose runtime ended its turn by an outcome, with none
 * of its calls open, is not ended with the turn: it goes over from its session to the sandbox
 * with link, streams and number, and the next turn of that sandbox is run on its link.  What
 * it writes meanwhile is read and dropped; what it asks for is refused.  It ends where the
 * sandbox does, where a configuration comes that makes its runtime another way, and where its
 * link or process does; the turn that comes then gets another.  What a turn may do is of that
 * turn alone, whichever worker runs it: authority is never a worker's.
 */
#ifndef BROKER_REST_H
#define BROKER_REST_H

#include <stdbool.h>

struct child;
struct message;
struct sandbox;
struct session;

/* Is there a worker for the turn that begins? */
enum rest {
	REST_NONE, /* one is to be made */
	REST_GIVEN,
	REST_LEAVES, /* not before the one that leaves is gone: sandbox_on_rested() */
};

/* The turn of `s` has ended: lets its worker rest, if it may.  Then `s` has an absent one. */
bool rest_keep(struct session *s);
/* The turn of `s` begins: gives it the worker that rests in its sandbox, if it has one, and
 * that was made as the turn's configuration makes it; one that was not leaves. */
enum rest rest_give(struct session *s);

/* Tells the worker that rests in `sb` to go, and kills it when its grace is over.  True if
 * there is none (left). */
bool rest_end(struct sandbox *sb);
/* b->config is another one: it goes, unless that makes its runtime the same way. */
void rest_on_config(struct sandbox *sb);
/* The supervisor has been told so: orders about it name that one, and hold no older one. */
void rest_on_taken(struct sandbox *sb);
/* Has it been told so, or has it begun to go? */
bool rest_leaves(const struct sandbox *sb);
/* The supervisor is gone, and it is, too. */
void rest_orphan(struct sandbox *sb);
/* After the loop. */
void rest_destroy(struct sandbox *sb);

/* What happens to one that rests. */
void rest_on_message(struct child *w, const struct message *m);
void rest_on_link_end(struct child *w);
void rest_on_exit(struct child *w);

#endif /* BROKER_REST_H */
