/*
 * private: the caissond that `run` and `exec` start for themselves.
 *
 * Owns the child, the control link to it and the life pipe, whose only write end is here
 * and close-on-exec: whatever ends this process ends that one.  caissond gets a session of
 * its own, so the terminal's signals reach the client alone; of our descriptors it keeps
 * standard error, and of our words all but the first.
 */
#ifndef CLIENT_PRIVATE_H
#define CLIENT_PRIVATE_H

struct event_base;
struct private;

struct private_handler {
	/* A link to a broker; the first one, or the next after a broker's death.  Yours. */
	void (*on_broker)(int fd, void *arg);
	/* Nothing can be started; caissond has said why. */
	void (*on_failed)(void *arg);
	/* Reaped; `status` is of waitpid().  The last call. */
	void (*on_gone)(int status, void *arg);
};

/* argv[0] is the command's word.  `proposal_fd`, which stays the caller's, becomes
 * PRIVATE_FD_PROPOSAL; -1: none.  Returns 0 and `*ret`, or a negative errno: -ENOENT and its
 * like are about caissond itself. */
int private_start(struct event_base *base, int argc, char **argv, int proposal_fd,
    const struct private_handler *handler, void *arg, struct private **ret);
/* Tells it to end: on_gone follows.  May be called more than once. */
void private_end(struct private *p);
/* After on_gone, or if it was never wanted: then the child ends by itself, unreaped. */
void private_destroy(struct private *p);

/* Path of the caissond beside this program, to be freed; NULL with errno set. */
char *private_program(void);

#endif /* CLIENT_PRIVATE_H */
