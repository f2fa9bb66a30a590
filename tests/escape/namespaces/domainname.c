/*
 * Change the host's domain name.
 * NIS is gone and the call is there.
 */
#include "tests/escape/escape.h"

ESCAPE(domainname)
{
	return tried(setdomainname("escape", 6));
}
