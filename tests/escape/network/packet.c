/*
 * Open a packet socket.
 * CVE-2017-7308, CVE-2020-14386: root in a namespace was enough.
 */
#include "tests/escape/escape.h"

ESCAPE(packet)
{
	return tried(socket(AF_PACKET, SOCK_RAW, 0));
}
