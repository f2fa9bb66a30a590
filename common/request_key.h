/*
 * request_key: what a client calls a request by, so that the same one made again is known
 * (D-10).
 */
#ifndef COMMON_REQUEST_KEY_H
#define COMMON_REQUEST_KEY_H

#include "common/protocol.h"

#define REQUEST_KEY_MAX  128 /* bytes */
#define REQUEST_KEY_RULE "1 to 128 of letters, digits, - _ ." /* for those who are refused */

/* Is it of that form? */
bool request_key_is_valid(struct slice key);

#endif /* COMMON_REQUEST_KEY_H */
