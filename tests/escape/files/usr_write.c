/*
 * Replace a program of the system.
 * As root inside and out it was enough to ask.
 */
#include "tests/escape/escape.h"

ESCAPE(usr_write)
{
	return tried_open("/usr/bin/env", O_WRONLY);
}
