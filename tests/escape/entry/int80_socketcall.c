/*
 * Make a socket by the i386 socketcall.
 * sandbox-runtime documents that its ban on sockets is open there.
 */
#include "tests/escape/escape.h"

ESCAPE(int80_socketcall)
{
	static uint32_t args[3] = { AF_UNIX, SOCK_STREAM, 0 };
	long ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(102), "b"(1 /* SYS_SOCKET */), "c"(args)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)ret < 0 ? -(int)ret : 0;
}
