/*
 * Make a file in a read-only mount.
 * Beside the program that loads whatever lies beside it.
 */
#include "tests/escape/escape.h"

ESCAPE(create_ro)
{
	return tried_open(path_in("ro", "new"), O_WRONLY | O_CREAT);
}
