/*
 * Enter the kernel by int 0x80, where numbers mean other calls.
 * A filter without a look at the architecture passed the i386 mkdir as another call.
 */
#include "tests/escape/escape.h"

ESCAPE(int80)
{
	static char path[4096]; /* below 4 GiB: the program is linked there */
	long ret;

	snprintf(path, sizeof(path), "%s/int80", arg("rw"));
	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(39 /* mkdir */), "b"(path), "c"(0700)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)ret < 0 ? -(int)ret : 0;
}
