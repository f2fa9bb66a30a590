/*
 * Choose a personality with a bit above the 32 that count.
 * The same mistake once more.
 */
#include "tests/escape/escape.h"

ESCAPE(personality_high)
{
	return tried(syscall(SYS_personality, 0x100000000UL | 0x0040000));
}
