/*
 * Make a terminal of one's own.
 * To bring a program to show what it shows a person only; and CVE-2014-0196.
 */
#include "tests/escape/escape.h"

ESCAPE(ptmx)
{
	return tried_open("/dev/ptmx", O_RDWR);
}
