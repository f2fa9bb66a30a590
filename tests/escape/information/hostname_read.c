/*
 * Read the host's name.
 * It is often whose it is.
 */
#include "tests/escape/escape.h"

#include <sys/utsname.h>

ESCAPE(hostname_read)
{
	struct utsname u;

	uname(&u);
	return strcmp(u.nodename, arg("hostname")) == 0 ? 0 : CONTAINED;
}
