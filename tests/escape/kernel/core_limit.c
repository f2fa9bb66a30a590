/*
 * Lower the limit of core dumps to nothing, for which a pipe in core_pattern makes an exception.
 * The kernel starts the host's handler, as the host's root, with what the program likes in its
 * memory; a limit of 1 is what stops it.
 */
#include "tests/escape/escape.h"

#include <sys/resource.h>

ESCAPE(core_limit)
{
	struct rlimit none = { 0, 0 };

	return tried(setrlimit(RLIMIT_CORE, &none));
}
