/*
 * Read the kernel's audit messages.
 * Or write some, so that others do not believe theirs.
 */
#include "tests/escape/escape.h"

#include <linux/netlink.h>

ESCAPE(audit)
{
	return tried(socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT));
}
