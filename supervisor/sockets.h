/*
 * sockets: the listening sockets of the gateway.
 *
 * Opened before the daemon goes into the background, so that an address that is taken is an
 * error with its key, and kept open as long as the daemon lives: a gateway that dies loses
 * nobody who connects meanwhile.  Those that systemd opened (activation.h) take the places of
 * the ones with the same address.  Nothing is accepted or read here.  Never logs.
 */
#ifndef SUPERVISOR_SOCKETS_H
#define SUPERVISOR_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define SOCKETS_ERROR_MAX 512
#define SOCKETS_NAME_MAX  128 /* bytes of what sockets_name() writes */
#define SOCKETS_MAX	  32  /* listening sockets of a gateway */

struct activation;
struct sockets;

/* One that is wanted; everything is borrowed. */
struct sockets_want {
	const char *key;     /* for errors: "gateway.listen[0].address" */
	const char *address; /* HOST:PORT, as sockets_parse(); NULL: `path` is set */
	const char *path;    /* of an AF_UNIX socket, which gets the mode 0600 */
	const char *name;    /* as which systemd may hand it over: "public", "monitor" */
};

/*
 * Opens all, in this order; what `a`, which may be NULL, holds under their name is taken.
 * Returns 0, `*ret` being NULL if none is wanted; or a negative errno with one line in `err`.
 */
int sockets_open(const struct sockets_want *want, size_t n, struct activation *a,
    struct sockets **ret, char err[SOCKETS_ERROR_MAX]);
/* Closes them, and removes the names that are ours.  Accepts NULL. */
void sockets_close(struct sockets *s);

/*
 * `path` as the one that `a` may hold under `name`: its descriptor, or -ENOENT.
 */
int sockets_take_path(struct activation *a, const char *name, const char *path);

/* How many, and the descriptors, in order.  NULL has none. */
size_t sockets_count(const struct sockets *s);
const int *sockets_fds(const struct sockets *s);
/* Where the i-th listens, as the kernel says: "127.0.0.1:8443", "[::1]:8443", "/run/x.sock". */
void sockets_name(const struct sockets *s, size_t i, char name[SOCKETS_NAME_MAX]);

/*
 * "127.0.0.1:8443", "[::1]:8443": a numeric address and a port, 0 for any.  Returns 0, or
 * -EINVAL.
 */
int sockets_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_size);
/* Does only this machine reach it? */
bool sockets_is_loopback(const struct sockaddr_storage *address);

#endif /* SUPERVISOR_SOCKETS_H */
