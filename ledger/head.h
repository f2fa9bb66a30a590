/*
 * head: count and hash of the record as the ledger last saw it on the disk (D-16).
 *
 * One line in a file of its own, "caisson-head 1 COUNT HASH SEGMENT LENGTH", always
 * replaced whole.  It never runs ahead of the disk: the segments are synced first, so a
 * record that is shorter than its head was cut.
 */
#ifndef LEDGER_HEAD_H
#define LEDGER_HEAD_H

#include "ledger/reader.h"

#define HEAD_FILE "head"

/* Returns 0; -ENOENT; -EBADMSG if the file is no head; another negative errno. */
int head_read(int dir_fd, struct position *ret);
/* Replaces the file, synced.  Returns 0 or a negative errno. */
int head_write(int dir_fd, const struct position *at);

#endif /* LEDGER_HEAD_H */
