#include "client/learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/exec.h"
#include "client/render.h"

#define LOUD  "\033[1;37;41m"
#define RESET "\033[0m"

/* One write, so that nothing of the command's comes between. */
static void
banner(bool colour, const char *text)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%s*** NOT A SANDBOX ***%s %s\n", colour ? LOUD : "",
	    colour ? RESET : "", text);

	if (n > 0)
		(void)!write(STDERR_FILENO, line, (size_t)n < sizeof(line) ? (size_t)n :
									      sizeof(line) - 1);
}

static bool
wants_colour(void)
{
	const char *no = getenv("NO_COLOR");

	return isatty(STDERR_FILENO) && (no == NULL || *no == '\0');
}

int
learn_main(const struct options *o, int argc, char **argv)
{
	bool colour = wants_colour(), proposed; /* asked now: later there is no call for it */
	char text[300];
	int status;

	banner(colour,
	    "caisson learn: system calls that a profile refuses go on, and are noted.  One run "
	    "sees one path.");
	status = exec_learn(o, argc, argv, &proposed);
	if (!proposed) {
		banner(colour, "caisson learn: nothing was proposed.");
		return EXIT_CANNOT;
	}
	snprintf(text, sizeof(text),
	    "caisson learn: the command ended with status %d, held by no profile.  Read what is "
	    "proposed%s before you use it.", status, o->has_proposal ? "" : " on standard output");
	banner(colour, text);
	return EXIT_PROPOSED;
}
