/*
 * workspace: the files of a session's workspace, as its clients see and change them.
 *
 * A child of the supervisor's serves them (CHILD_WORKSPACE): made when something is asked for,
 * ended when nothing was for a while.  What a client reads comes past the session's queue; a
 * change is an operation of it (sandbox_queue.c).  A request that the child took and never
 * answered has an unknown outcome, and is never made again.
 */
#ifndef BROKER_WORKSPACE_H
#define BROKER_WORKSPACE_H

#include <stdbool.h>
#include <stdint.h>

struct broker;
struct child;
struct client;
struct control;
struct message;
struct operation;
struct workspace;

/* file.list, file.read, file.stat: of any client. */
void workspace_handle(struct client *c, const struct message *m);
/* Nobody waits for what it asked for. */
void workspace_forget_client(struct client *c);

/* It is this operation's turn: a change to a file. */
void workspace_begin(struct operation *op);
/* It has ended otherwise: the child gets until `kill_at_ms` to be done with it. */
void workspace_on_ended(struct operation *op, uint64_t kill_at_ms);

/* The child is told to go, and killed soon if it does not; what it was asked for fails.  True
 * if there is none (left).  `w` may be NULL in all of these. */
bool workspace_stop(struct workspace *w);
bool workspace_is_gone(const struct workspace *w);
void workspace_orphan(struct workspace *w);
/* After its child is gone, or after the loop. */
void workspace_destroy(struct workspace *w);

/* The child that CONTROL_LINK and its like name by its number; NULL if there is none. */
struct child *workspace_find(struct broker *b, uint64_t number);
/* What session_events.c has for it. */
int workspace_take_link(struct child *c, int fd);
void workspace_on_refused(struct child *c, const struct control *m);
void workspace_on_exit(struct child *c, const struct control *m);

#endif /* BROKER_WORKSPACE_H */
