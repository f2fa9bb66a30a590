/*
 * Ask for a key of the user's session.
 * The upcall runs a program as root on the host; CVE-2017-17807 let it write elsewhere.
 */
#include "tests/escape/escape.h"

ESCAPE(request_key)
{
	if (syscall(SYS_request_key, "user", "no such key", NULL, 0) >= 0 || errno == ENOKEY)
		return 0;
	return errno;
}
