#include "common/state_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *
state_dir_default(void)
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *dir = NULL;
	int r = -1;

	if (geteuid() == 0)
		return strdup("/var/lib/caisson");
	if (xdg && xdg[0] == '/')
		r = asprintf(&dir, "%s/caisson", xdg);
	else if (home && home[0] == '/')
		r = asprintf(&dir, "%s/.local/state/caisson", home);
	return r < 0 ? NULL : dir;
}
