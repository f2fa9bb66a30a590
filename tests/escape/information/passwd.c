/*
 * Read the names of the host's users.
 * Whom to ask for, and where the homes are.
 */
#include "tests/escape/escape.h"

ESCAPE(passwd)
{
	int root = file_has("/etc/passwd", "root:");

	return root < 0 ? errno : root ? 0 : CONTAINED;
}
