/*
 * Look into the keyring of the user whom the chamber stands for.
 * Containers of one uid shared it, tickets and disk keys included.
 */
#include "tests/escape/escape.h"

ESCAPE(keyctl)
{
	return tried(syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -4 /* user */, 1));
}
