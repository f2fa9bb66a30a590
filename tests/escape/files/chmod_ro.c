/*
 * Change the mode of a file of a read-only mount.
 * unsloth#7248: Landlock does not cover chmod.
 */
#include "tests/escape/escape.h"

ESCAPE(chmod_ro)
{
	return tried(chmod(path_in("ro", "file"), 0666));
}
