/*
 * input: values that a command line names: JSON, or @FILE, or @- for standard input, as one
 * word of a command line ends at 128 KiB.
 */
#ifndef CLIENT_INPUT_H
#define CLIENT_INPUT_H

#include "common/json.h"

/*
 * The text of a file, "-": of standard input, with its NUL; the caller frees it.  NULL with one
 * line in `err`: it cannot be read, is over 2 MiB, holds a NUL byte.
 */
char *input_read(const char *path, char err[JSON_ERROR_MAX]);

/* Packs `word`, as json_read(), or what the file behind its @ holds.  0, -EINVAL, -ENOMEM. */
int input_pack(const char *word, struct buf *out, char err[JSON_ERROR_MAX]);

#endif /* CLIENT_INPUT_H */
