/*
 * Read the passwords of the host.
 * What every list of sensitive files begins with; a root that holds nothing else needs no list.
 */
#include "tests/escape/escape.h"

ESCAPE(shadow)
{
	return tried_open("/etc/shadow", O_RDONLY);
}
