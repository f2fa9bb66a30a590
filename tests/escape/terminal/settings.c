/*
 * Change the terminal's settings.
 * An echo that is off shows no password, one that is on does.
 */
#include "tests/escape/escape.h"

#include <termios.h>

ESCAPE(settings)
{
	struct termios t;

	if (tcgetattr(0, &t) < 0)
		return errno;
	return tried(tcsetattr(0, TCSANOW, &t));
}
