/*
 * Put a key into a keyring.
 * Keyrings know no namespace of their own: CVE-2016-0728, and a place to meet other chambers.
 */
#include "tests/escape/escape.h"

ESCAPE(add_key)
{
	return tried(syscall(SYS_add_key, "user", "escape", "x", 1, -1 /* thread keyring */));
}
