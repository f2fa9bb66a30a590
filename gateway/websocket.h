/*
 * websocket: the server's side of RFC 6455 on a connection (conn.h).
 *
 * Frames, fragments, control frames, the closing handshake and pings are dealt with here; the
 * user sees whole text messages (conn_handler.on_text).  What breaks the RFC is closed with
 * 1002, text that is not UTF-8 with 1007, a binary message with 1008, a message over the limit
 * of a body with 1009.  Extensions are declined.  A connection from which two pings in a row
 * brought nothing back is cut off.
 */
#ifndef GATEWAY_WEBSOCKET_H
#define GATEWAY_WEBSOCKET_H

#include "gateway/conn.h"

#define WS_NORMAL      1000
#define WS_GOING_AWAY  1001
#define WS_PROTOCOL    1002
#define WS_NO_STATUS   1005 /* never on the wire: closed without a code */
#define WS_ABNORMAL    1006 /* never on the wire: no close frame came */
#define WS_NOT_TEXT    1007 /* not UTF-8 */
#define WS_POLICY      1008
#define WS_TOO_BIG     1009
#define WS_INTERNAL    1011

#define WS_REASON_MAX 123 /* bytes of a close frame's reason */

/*
 * Is the request in service a sound WebSocket handshake (GET, HTTP/1.1, Upgrade: websocket,
 * Sec-WebSocket-Version: 13, a key of 16 bytes)?  If not, it is answered (400; 426 with the
 * version), and this returns false.
 */
bool ws_check(struct conn *c);
/* Takes the next subprotocol that the client offers; `list` starts as zeroes and is the
 * caller's place in the list.  False at the end. */
struct ws_offers {
	unsigned header;
	struct slice rest;
};
bool ws_offer_next(const struct request *r, struct ws_offers *list, struct slice *ret);

/*
 * Answers the request in service, which ws_check() has passed, with 101: a WebSocket from now
 * on; the request is void.  `subprotocol`: one of those offered, or NULL.
 */
void ws_accept(struct conn *c, const char *subprotocol);
bool ws_is_open(const struct conn *c); /* accepted, and neither side has begun to close */

/* Queues one text message, which must be UTF-8.  Without effect on one that is not open. */
void ws_send_text(struct conn *c, struct slice text);
/*
 * Sends a close frame behind what is queued; `reason` may be NULL, and is cut at WS_REASON_MAX.
 * on_text comes no more; on_close follows when the client has answered, or after 2 s.  The
 * first one counts.
 */
void ws_close(struct conn *c, unsigned code, const char *reason);

#endif /* GATEWAY_WEBSOCKET_H */
