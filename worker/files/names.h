/*
 * names: the names of a directory in the order of their bytes, a batch at a time.
 *
 * A scan reads the whole directory and keeps the smallest names behind a given one: memory
 * is that of a batch, however large the directory is.  Names that no path can hold are
 * counted; our own unfinished files are passed over.
 */
#ifndef WORKER_FILES_NAMES_H
#define WORKER_FILES_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/files/segments.h"

#define NAMES_SCAN_MAX (4u << 20) /* names of one directory: what a scan may cost */

struct name {
	uint8_t type; /* DT_* */
	uint8_t len;
	char text[SEGMENT_BYTES_MAX + 1];
};

struct names {
	struct name *name; /* sorted */
	size_t n;
	bool more; /* the directory holds names behind the last */
	uint64_t scanned; /* what the scan cost */
	uint64_t unlisted; /* names in the directory that no path can hold */
};

/*
 * Reads the directory `fd`, from its beginning, and keeps at most `limit` (> 0) names
 * behind `after` (NULL: all).  `ret` is the caller's to names_finish().  Returns 0; -E2BIG
 * over NAMES_SCAN_MAX names; another negative errno.
 */
int names_scan(int fd, const char *after, size_t limit, struct names *ret);
/* Zeroed ones are allowed. */
void names_finish(struct names *n);

#endif /* WORKER_FILES_NAMES_H */
