/*
 * Read a message queue of the host.
 * CVE-2021-22555 and many more lay their objects out with messages.
 */
#include "tests/escape/escape.h"

#include <sys/msg.h>

ESCAPE(message)
{
	struct {
		long type;
		char text[1];
	} m = { 1, "x" };

	return tried(msgsnd((int)arg_number("msg"), &m, 1, IPC_NOWAIT));
}
