/*
 * Read the kernel's log.
 * Addresses and what other programs died of.
 */
#include "tests/escape/escape.h"

#include <sys/klog.h>

ESCAPE(kernel_log)
{
	static char log[4096];

	return tried(klogctl(3, log, sizeof(log)));
}
