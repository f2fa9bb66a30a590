/*
 * Read what another chamber of the same supervisor has in its /tmp.
 * A place for all is where names are guessed and links are planted.
 */
#include "tests/escape/escape.h"

ESCAPE(neighbour_tmp)
{
	char path[256];

	snprintf(path, sizeof(path), "/tmp/%s", arg("neighbour"));
	return tried_open(path, O_RDONLY);
}
