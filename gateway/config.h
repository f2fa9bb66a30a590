/*
 * config: the frames config.gateway, config.listener ..., config.end, out of a sealed file.
 */
#ifndef GATEWAY_CONFIG_H
#define GATEWAY_CONFIG_H

#include "common/protocol.h"

struct ssl_ctx_st;

#define GATEWAY_LISTENERS_MAX 64

struct gateway_listener {
	enum listener_kind kind;
	struct ssl_ctx_st *tls; /* NULL: plain */
};

struct gateway_config {
	char *namespace;
	unsigned connections, requests;
	size_t header_bytes, body_bytes;
	unsigned header_timeout_ms, idle_timeout_ms, write_timeout_ms, ping_interval_ms;
	unsigned nlisteners;
	struct gateway_listener listeners[GATEWAY_LISTENERS_MAX];
};

/* Why a configuration is of no use: one line, and which listener it is about. */
struct gateway_config_fault {
	char text[256];
	unsigned listener;
};

/*
 * Reads a whole configuration from `fd`, which stays the caller's; certificates and keys are
 * loaded, and their bytes wiped.  Returns 0; -EINVAL with `ret_fault` set; another negative
 * errno if it cannot be read.
 */
int gateway_config_read(
    int fd, struct gateway_config *ret, struct gateway_config_fault *ret_fault);
/* Starts as zeroes; may be half-built. */
void gateway_config_finish(struct gateway_config *c);

#endif /* GATEWAY_CONFIG_H */
