/*
 * Follow a link that stands in a mount and leads out of it.
 * Followed on the host's side in wazero#2321 and a dozen file servers.
 */
#include "tests/escape/escape.h"

ESCAPE(symlink_planted)
{
	return tried_open(path_in("rw", "link"), O_RDONLY);
}
