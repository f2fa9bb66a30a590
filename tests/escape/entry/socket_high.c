/*
 * Make a socket of family AF_UNIX plus 2^32.
 * The same mistake, one call further.
 */
#include "tests/escape/escape.h"

ESCAPE(socket_high)
{
	return tried(syscall(SYS_socket, 0x100000000UL | AF_UNIX, SOCK_STREAM, 0));
}
