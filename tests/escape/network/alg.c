/*
 * Open a socket to the kernel's ciphers.
 * CVE-2019-8912; a large and forgotten surface.
 */
#include "tests/escape/escape.h"

ESCAPE(alg)
{
	return tried(socket(AF_ALG, SOCK_SEQPACKET, 0));
}
