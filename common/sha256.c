/*
 * libcrypto by its older names.  The newer ones look a digest up, allocate and take locks
 * for each use, which costs more than hashing what is small; and the first use opens files.
 */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "common/sha256.h"

#include <assert.h>
#include <string.h>

void
sha256(struct slice a, struct slice b, uint8_t ret[SHA256_BYTES])
{
	SHA256_CTX c;

	SHA256_Init(&c);
	SHA256_Update(&c, a.p, a.n);
	SHA256_Update(&c, b.p, b.n);
	SHA256_Final(ret, &c);
}

static void
begin(SHA256_CTX *c, const uint8_t *key, size_t n, uint8_t pad)
{
	uint8_t block[SHA256_CBLOCK];

	memset(block, pad, sizeof block);
	for (size_t i = 0; i < n; i++)
		block[i] ^= key[i];
	SHA256_Init(c);
	SHA256_Update(c, block, sizeof block);
	explicit_bzero(block, sizeof block);
}

void
sha256_key_init(struct sha256_key *k, const uint8_t *key, size_t n)
{
	assert(n <= SHA256_CBLOCK);
	begin(&k->inner, key, n, 0x36);
	begin(&k->outer, key, n, 0x5c);
}

void
sha256_keyed(const struct sha256_key *k, struct slice s, uint8_t ret[SHA256_BYTES])
{
	SHA256_CTX c = k->inner;

	SHA256_Update(&c, s.p, s.n);
	SHA256_Final(ret, &c);
	c = k->outer;
	SHA256_Update(&c, ret, SHA256_BYTES);
	SHA256_Final(ret, &c);
}
