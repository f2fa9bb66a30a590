/*
 * Read who is connected with whom.
 * /proc/net/tcp lists every address that the machine speaks to.
 */
#include "tests/escape/escape.h"

ESCAPE(network_table)
{
	char port[16];
	int found;

	snprintf(port, sizeof(port), "0100007F:%04lX", arg_number("port"));
	found = file_has("/proc/self/net/tcp", port);
	return found < 0 ? errno : found ? 0 : CONTAINED;
}
