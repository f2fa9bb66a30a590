/*
 * Change the terminal's size, which signals its foreground process.
 * A signal to another session.
 */
#include "tests/escape/escape.h"

#include <sys/ioctl.h>

ESCAPE(window_size)
{
	struct winsize w = { .ws_row = 7, .ws_col = 7 };

	return tried(ioctl(0, TIOCSWINSZ, &w));
}
