/*
 * listen: the local socket of a daemon: who may be there, and how many.
 *
 * Owns the socket and its name (socket_name.h), whose lock is the daemon's pid file, too.
 * Accepts, reads the kernel's credentials of the peer (D-14) and hands the descriptor on,
 * unread. Anybody who can reach the socket may connect: what they may do is the broker's to say
 * (D-18). Connections are bounded, in all and for each uid; a part of them is kept for the
 * operator, so that nobody can shut it out.
 */
#ifndef SUPERVISOR_LISTEN_H
#define SUPERVISOR_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#define LISTEN_MAX	  2048 /* connections at once */
#define LISTEN_OTHERS_MAX 1024 /* of them, of uids that are not the operator */
#define LISTEN_UID_MAX	  128  /* of one such uid */
#define LISTEN_ERROR_MAX  512 /* SOCKET_NAME_ERROR_MAX */
/* The base has so many: accepting comes last, after the end of a broker that is in the same
 * turn of the loop, so that nobody is handed to one that is gone. */
#define LISTEN_PRIORITIES 3

struct event_base;
struct listen;

struct listen_options {
	const char *path;
	bool inherited; /* `fd` listens there already (activation.h), and is taken */
	int fd;
	uid_t operator_uid; /* besides root */
	/* One connection; takes `fd`. */
	void (*on_client)(int fd, const struct ucred *peer, void *arg);
	void *arg;
};

/*
 * Binds the name, if the socket is not inherited, and listens; connections wait until
 * listen_resume().  Returns 0; or a negative errno with one line in `err`, as
 * socket_name_bind().
 */
int listen_open(struct event_base *base, const struct listen_options *o, struct listen **ret,
    char err[LISTEN_ERROR_MAX]);
/* Removes socket and pid file.  Accepts NULL. */
void listen_close(struct listen *l);

/* Accepts from now on, and hands on again who was not taken. */
void listen_resume(struct listen *l);
/* Accepts no more for now: who connects waits.  `gone`: all that were taken are gone. */
void listen_pause(struct listen *l, bool gone);
/* Accepts no more, and takes the name away: who connects learns it at once. */
void listen_end(struct listen *l);
/* The first that was handed on and not taken is: until then it is kept, for who comes next if
 * this one should die before it has read a byte.  Returns 0, or -EPROTO if there was none. */
int listen_taken(struct listen *l);
/* One connection of `uid` has ended.  Returns 0, or -EPROTO if there was none. */
int listen_gone(struct listen *l, uid_t uid);

#endif /* SUPERVISOR_LISTEN_H */
