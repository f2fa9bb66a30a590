/*
 * front: what the network sees of a daemon: its gateway's sockets, and what that serves there.
 *
 * Puts the configuration's listeners in the order in which the gateway gets them: those of
 * gateway.listen, then the monitor's.
 */
#ifndef SUPERVISOR_FRONT_H
#define SUPERVISOR_FRONT_H

#include "supervisor/config.h"
#include "supervisor/sockets.h"

struct activation;

struct front {
	struct sockets *sockets; /* NULL: there is no gateway */
	struct buf config;	 /* pack_gateway(), with private keys in it */
};

/*
 * Opens the sockets of `c`, and reads what the gateway needs; nothing for one that has none.
 * What `a` holds at their addresses is taken.  Returns 0, or a negative errno with one line in
 * `err`.  `ret` can be finished either way.
 */
int front_open(const struct conf_namespace *c, const char *file, struct activation *a,
    struct front *ret, char err[CONF_ERROR_MAX]);
/* Says where it listens, a line for each. */
void front_log(const struct front *f);
/* Nobody is to come any more. */
void front_end(struct front *f);
/* The same, and forgets the rest. */
void front_finish(struct front *f);

/* Releases what may hold a private key. */
void front_forget(struct buf *config);

#endif /* SUPERVISOR_FRONT_H */
