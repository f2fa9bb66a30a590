/*
 * Write into the memory of a process of the host with process_vm_writev.
 * As good as running code in it.
 */
#include "tests/escape/escape.h"

#include <sys/uio.h>

ESCAPE(vm_write)
{
	struct iovec here = { (char[]){ "changed" }, 7 };
	struct iovec there = { (void *)arg_number("address"), 7 };

	return tried(process_vm_writev((pid_t)arg_number("victim"), &here, 1, &there, 1, 0));
}
