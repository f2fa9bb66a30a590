/*
 * Give the terminal another line discipline.
 * CVE-2020-14416, CVE-2023-6546: n_hdlc, n_gsm and their races.
 */
#include "tests/escape/escape.h"

#include <sys/ioctl.h>

ESCAPE(line_discipline)
{
	return tried(ioctl(0, TIOCSETD, &(int){ 0 }));
}
