/*
 * List the interfaces and addresses by netlink.
 * Where am I, and who else is here?
 */
#include "tests/escape/escape.h"

#include <linux/netlink.h>

ESCAPE(netlink_route)
{
	return tried(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
}
