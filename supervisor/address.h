/*
 * address: where a gateway listens: HOST:PORT with a numeric host, 127.0.0.1:8443 or [::1]:8443.
 *
 * Names are not looked up: what is served where is in the configuration, and nowhere else.
 */
#ifndef SUPERVISOR_ADDRESS_H
#define SUPERVISOR_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_MAX 64 /* bytes of one, with its NUL */

/* Reads `text` into `ret` and its length.  Returns NULL, or what is wrong with it (static text). */
const char *address_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len);

/* Reached from this machine alone: 127.0.0.0/8 or ::1. */
bool address_is_loopback(const struct sockaddr_storage *a);

/* The port; 0: any that is free. */
unsigned address_port(const struct sockaddr_storage *a);

/* The same as text, as address_parse() reads it. */
void address_format(const struct sockaddr_storage *a, char ret[ADDRESS_TEXT_MAX]);

#endif /* SUPERVISOR_ADDRESS_H */
