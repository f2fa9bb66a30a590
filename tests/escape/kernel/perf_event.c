/*
 * Open a performance counter.
 * CVE-2013-2094, CVE-2023-5717: an attribute too many gave the kernel away.
 */
#include "tests/escape/escape.h"

#include <linux/perf_event.h>

ESCAPE(perf_event)
{
	struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE,
		.size = sizeof(a),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.exclude_kernel = 1,
		.exclude_hv = 1 };

	return tried(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}
