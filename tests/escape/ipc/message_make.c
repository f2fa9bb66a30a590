/*
 * Make a message queue.
 * The same by one's own.
 */
#include "tests/escape/escape.h"

#include <sys/msg.h>

ESCAPE(message_make)
{
	int id = msgget(IPC_PRIVATE, 0600);

	return id < 0 ? errno : tried(msgctl(id, IPC_RMID, NULL));
}
