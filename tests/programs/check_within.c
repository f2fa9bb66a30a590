/*
 * check_within: what `caissond --check FILE` does, with a bound for the broker's answer that a
 * test can wait for.
 *
 *   check_within MS FILE
 *
 * Prints "valid", or the error to standard error; exits with 0, or 1, or 2 if no answer came in time.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/log.h"
#include "supervisor/check.h"

static struct conf_namespace config;
static char err[CONF_ERROR_MAX];

int
main(int argc, char **argv)
{
	int r;

	if (argc != 3)
		return 64;
	log_init("check_within", LOG_INFO_);
	signal(SIGPIPE, SIG_IGN);
	r = conf_open(argv[2], &config, err);
	if (r == 0)
		r = conf_resolve(&config, argv[2], err);
	if (r == 0)
		r = check_with_broker(&config, argv[2], (unsigned)strtoul(argv[1], NULL, 10), err);
	conf_finish(&config);
	if (r < 0)
		fprintf(stderr, "%s\n", err);
	else
		printf("valid\n");
	return r == -ETIMEDOUT ? 2 : r < 0;
}
