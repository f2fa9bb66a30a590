/*
 * Remove a kernel module.
 * A firewall or a security module may be one.
 */
#include "tests/escape/escape.h"

ESCAPE(module_remove)
{
	return tried(syscall(SYS_delete_module, "no_such_module", O_NONBLOCK));
}
