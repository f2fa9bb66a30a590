/*
 * sha256: SHA-256 (FIPS 180-4), plain and keyed (HMAC, RFC 2104).
 *
 * Pure: no files, no allocation, no failure, no state but a key's.
 */
#ifndef COMMON_SHA256_H
#define COMMON_SHA256_H

#include <openssl/sha.h>

#include "common/protocol.h"

#define SHA256_BYTES SHA256_DIGEST_LENGTH

/* Of `a` and then `b`. */
void sha256(struct slice a, struct slice b, uint8_t ret[SHA256_BYTES]);

/* A key, as the two halves of HMAC begin with it. */
struct sha256_key {
	SHA256_CTX inner, outer;
};

/* `n` bytes of key, at most a block (64). */
void sha256_key_init(struct sha256_key *k, const uint8_t *key, size_t n);
void sha256_keyed(const struct sha256_key *k, struct slice s, uint8_t ret[SHA256_BYTES]);

#endif /* COMMON_SHA256_H */
