/*
 * Open the controlling terminal by its name.
 * Closed standard streams do not matter then.
 */
#include "tests/escape/escape.h"

ESCAPE(dev_tty)
{
	return tried_open("/dev/tty", O_RDWR);
}
