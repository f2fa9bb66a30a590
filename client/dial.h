/*
 * dial: connections to a daemon's local socket, before and after the client has locked itself
 * in.
 *
 * Owns a small process of its own that was forked before anything was read from the daemon: it
 * reads nothing but single bytes of ours, knows one path, and hands back connections to it.  So
 * the client itself, which reads what runtimes write, cannot connect to anything else.
 */
#ifndef CLIENT_DIAL_H
#define CLIENT_DIAL_H

struct event_base;
struct dial;
struct options;

struct dial_handler {
	/* What dial_again() asked for.  Yours. */
	void (*on_connection)(int fd, void *arg);
	/* It cannot be had; `error` is an errno. */
	void (*on_failed)(int error, void *arg);
};

/* The path of the command line, or the usual one, to be freed; NULL after a line on standard
 * error that begins with `command`. */
char *dial_path(const struct options *o, const char *command);

/* Connects now, as local_socket_connect(), which see. */
int dial_connect(const char *path);

/* Says on standard error why there is no connection, and what to do about it. */
void dial_explain(const char *command, const char *path, int error);

/*
 * Starts the process.  Before client_confine().  `path` is copied.  Returns 0 and `*ret`, or a
 * negative errno.
 */
int dial_start(struct event_base *base, const char *path, const struct dial_handler *handler,
    void *arg, struct dial **ret);
/* Asks for one more connection: on_connection or on_failed follows. */
void dial_again(struct dial *d);
/* Ends the process.  NULL is allowed. */
void dial_destroy(struct dial *d);

#endif /* CLIENT_DIAL_H */
