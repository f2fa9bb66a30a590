/*
 * Send an echo request by a socket that needs no privilege.
 * net.ipv4.ping_group_range; ICMP carries data as well.
 */
#include "tests/escape/escape.h"

#include <netinet/in.h>

ESCAPE(ping)
{
	return tried(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
}
