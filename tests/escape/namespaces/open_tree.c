/*
 * Copy a tree of mounts by the newer call.
 * A copy has no parent whose options would count.
 */
#include "tests/escape/escape.h"

ESCAPE(open_tree)
{
	return tried(syscall(SYS_open_tree, AT_FDCWD, "/usr", 1 /* OPEN_TREE_CLONE */));
}
