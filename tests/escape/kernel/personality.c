/*
 * Choose a personality: no randomised addresses, everything readable executable.
 * Makes exploits of the next program that is started simple.
 */
#include "tests/escape/escape.h"

#include <sys/personality.h>

ESCAPE(personality)
{
	return tried(syscall(SYS_personality, ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC));
}
