/*
 * api: what the public listeners serve: the HTTP API and the WebSocket of operations.
 */
#ifndef GATEWAY_API_H
#define GATEWAY_API_H

#include "gateway/conn.h"

extern const struct conn_handler api_handler;

#endif /* GATEWAY_API_H */
