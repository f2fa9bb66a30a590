/*
 * List the home directory.
 * Names alone tell who works on what.
 */
#include "tests/escape/escape.h"

ESCAPE(home)
{
	return tried_open(arg("secret"), O_RDONLY | O_DIRECTORY);
}
