/*
 * Open a raw socket.
 * landlock-lsm/linux#50: no rule of Landlock's covers it.
 */
#include "tests/escape/escape.h"

#include <netinet/in.h>

ESCAPE(raw)
{
	return tried(socket(AF_INET, SOCK_RAW, IPPROTO_TCP));
}
