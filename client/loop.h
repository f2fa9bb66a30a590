/*
 * loop: the event loop of every command that talks to somebody.
 */
#ifndef CLIENT_LOOP_H
#define CLIENT_LOOP_H

struct event_base;

/* One that can watch regular files, too, and makes no system call that confine.h refuses.
 * NULL if memory is out. */
struct event_base *loop_create(void);

#endif /* CLIENT_LOOP_H */
