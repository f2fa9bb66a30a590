/*
 * Open an XDP socket.
 * Rings shared with the driver.
 */
#include "tests/escape/escape.h"

ESCAPE(xdp)
{
	return tried(socket(44 /* AF_XDP */, SOCK_RAW, 0));
}
