/*
 * Open a socket to the machine's host.
 * The way out of a virtual machine: agents listen there without a password.
 */
#include "tests/escape/escape.h"

ESCAPE(vsock)
{
	return tried(socket(AF_VSOCK, SOCK_STREAM, 0));
}
