/*
 * Speak to netfilter.
 * CVE-2022-32250, CVE-2023-32233, CVE-2024-1086: nf_tables, from any user namespace.
 */
#include "tests/escape/escape.h"

#include <linux/netlink.h>

ESCAPE(netfilter)
{
	return tried(socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER));
}
