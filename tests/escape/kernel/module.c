/*
 * Load a kernel module.
 * Every privileged container.
 */
#include "tests/escape/escape.h"

ESCAPE(module)
{
	return tried(syscall(SYS_init_module, "", 0, ""));
}
