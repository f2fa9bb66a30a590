/*
 * Change the host's name.
 * Programs of the host believe it.
 */
#include "tests/escape/escape.h"

ESCAPE(hostname)
{
	return tried(sethostname("escape", 6));
}
