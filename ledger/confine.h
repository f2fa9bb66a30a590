/*
 * confine: what the ledger takes from itself before it reads a byte of the broker's.
 *
 * No new privileges; with Landlock nothing of the file system but the two directories it was
 * given, the journal's for reading only; a default-deny list of system calls
 * (ledger/syscalls.def) without sockets, programs or changes to a journal.
 */
#ifndef LEDGER_CONFINE_H
#define LEDGER_CONFINE_H

#include <stdbool.h>

/*
 * For good, for this process.  `index_fd` may be -1.  A kernel without Landlock is
 * accepted (the directories' descriptors and the list remain); anything else that fails is
 * an error, with `*ret_what` set to static text.  Returns 0 or a negative errno.
 */
int confine_ledger(int journal_fd, int index_fd, bool readonly, const char **ret_what);

#endif /* LEDGER_CONFINE_H */
