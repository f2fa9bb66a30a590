/*
 * digest: digests keyed with a key of the installation, for the record: who reads them without
 * the key cannot try what was meant, nor make one (D-12).
 */
#ifndef BROKER_DIGEST_H
#define BROKER_DIGEST_H

#include "common/protocol.h"

struct digest;

/* Copies the key.  NULL if memory is out. */
struct digest *digest_create(const uint8_t key[32]);
/* NULL is allowed. */
void digest_destroy(struct digest *d);
/* Keyed digest of the canonical form of `value`.  Returns 0 or -ENOMEM. */
int digest_value(struct digest *d, struct slice value, uint8_t ret[32]);

#endif /* BROKER_DIGEST_H */
