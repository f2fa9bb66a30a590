/*
 * journal: the form of the record on disk, shared by its writer (the broker) and its
 * reader (the ledger).
 *
 * A segment is a file journal.NNNNNNNN (8 digits, from 1) of entries:
 *
 *     u32 big-endian length of what follows | 32 bytes chain | packed `record` map
 *
 *     chain = SHA-256(chain of the entry before | packed map); 32 zero bytes before the
 *     first entry of segment 1.
 *
 * The chain runs on across segments.  The first record of each segment is
 * segment.opened, and names number, count and chain of what stands before it and the
 * valid length of the segment before; bytes beyond that length are a torn tail and not
 * part of the record.  An entry that does not parse or does not chain, with valid
 * entries after it or not at the end of the last segment, is damage.
 *
 * Pure.
 */
#ifndef COMMON_JOURNAL_H
#define COMMON_JOURNAL_H

#include "common/protocol.h"

#define JOURNAL_ENTRY_MAX (64u << 10) /* bytes of one entry, length word included */
#define JOURNAL_HASH	  32
#define JOURNAL_HEAD	  (4 + JOURNAL_HASH)

/*
 * Appends one entry for `r` to `out` and moves `chain` on.  Returns 0; -ERANGE if it is
 * over JOURNAL_ENTRY_MAX; -ENOMEM.  Neither changes on failure.
 */
int journal_entry(struct buf *out, uint8_t chain[JOURNAL_HASH], const struct msg_record *r);
/* The same for a record that is packed already (protocol_pack() of MSG_record). */
int journal_seal(struct buf *out, uint8_t chain[JOURNAL_HASH], struct slice map);

enum journal_read {
	JOURNAL_READ_OK = 1,
	JOURNAL_READ_END = 0,	 /* exactly at the end */
	JOURNAL_READ_SHORT = -1, /* an entry begins here and its end is missing */
	JOURNAL_READ_BAD = -2,	 /* it does not parse: `fault` says why */
	JOURNAL_READ_CHAIN = -3, /* it parses, and does not follow `chain` */
};

/*
 * Reads the entry at the front of `n` bytes.  On OK fills `ret` (slices into `p`), sets
 * `*ret_len` to the bytes of the entry, and moves `chain` on.
 */
enum journal_read journal_next(const uint8_t *p, size_t n, uint8_t chain[JOURNAL_HASH],
    struct msg_record *ret, size_t *ret_len, struct fault *fault);

/* "journal.00000001" into 17 bytes; numbers over 99999999 do not exist. */
void journal_name(char name[17], uint64_t number);
/* The number in such a name, 0 if it is none. */
uint64_t journal_number(const char *name);

#endif /* COMMON_JOURNAL_H */
