/*
 * digest: SHA-256 of what is written and of what is replaced, as lower-case hex.
 */
#ifndef WORKER_FILES_DIGEST_H
#define WORKER_FILES_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_TEXT 65 /* bytes: the digits and a NUL */

/* Fetches the algorithm, which may read a configuration: before the process confines
 * itself.  Returns 0 or -ENOMEM. */
int digest_init(void);

/* Returns 0, or -ENOMEM. */
int digest_bytes(const uint8_t *p, size_t n, char hex[DIGEST_TEXT]);

/* Reads `fd` to its end.  Returns 0; -E2BIG over 256 MiB; -ENOMEM; that of read(). */
int digest_file(int fd, char hex[DIGEST_TEXT]);

#endif /* WORKER_FILES_DIGEST_H */
