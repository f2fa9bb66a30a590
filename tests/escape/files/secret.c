/*
 * Read a file of the user whom the chamber stands for: a key, a token.
 * Agents with the whole home directory readable sent ~/.ssh and ~/.aws away.
 */
#include "tests/escape/escape.h"

ESCAPE(secret)
{
	return tried_open(path_in("secret", "file"), O_RDONLY);
}
