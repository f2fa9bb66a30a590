/*
 * Read the memory of a process of the host with process_vm_readv.
 * The way to steal keys that agents and browsers keep in memory.
 */
#include "tests/escape/escape.h"

#include <sys/uio.h>

ESCAPE(vm_read)
{
	char bytes[16];
	struct iovec here = { bytes, sizeof(bytes) };
	struct iovec there = { (void *)arg_number("address"), sizeof(bytes) };

	return tried(process_vm_readv((pid_t)arg_number("victim"), &here, 1, &there, 1, 0));
}
