#include "worker/files/digest.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "common/hex.h"
#include "common/util.h"

#define DIGEST_BYTES	 32
#define SIZE_MAX_BYTES	 (256u << 20) /* that one call hashes to check `expect` */
#define HASH_BLOCK_BYTES (64u << 10)

static EVP_MD *sha256; /* fetched once, before the process confines itself */

int
digest_init(void)
{
	if (sha256 == NULL)
		sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	return sha256 != NULL ? 0 : -ENOMEM;
}

int
digest_bytes(const uint8_t *p, size_t n, char hex[DIGEST_TEXT])
{
	uint8_t digest[DIGEST_BYTES];

	if (digest_init() < 0 || EVP_Digest(p, n, digest, NULL, sha256, NULL) != 1)
		return -ENOMEM;
	hex_encode(digest, sizeof(digest), hex);
	return 0;
}

static int
hash_stream(int fd, EVP_MD_CTX *ctx, uint8_t *block, char hex[DIGEST_TEXT])
{
	uint8_t digest[DIGEST_BYTES];
	uint64_t total = 0;
	ssize_t got;

	if (EVP_DigestInit_ex(ctx, sha256, NULL) != 1)
		return -ENOMEM;
	while ((got = read(fd, block, HASH_BLOCK_BYTES)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		total += (uint64_t)got;
		if (total > SIZE_MAX_BYTES)
			return -E2BIG;
		if (EVP_DigestUpdate(ctx, block, (size_t)got) != 1)
			return -ENOMEM;
	}
	if (EVP_DigestFinal_ex(ctx, digest, NULL) != 1)
		return -ENOMEM;
	hex_encode(digest, sizeof(digest), hex);
	return 0;
}

int
digest_file(int fd, char hex[DIGEST_TEXT])
{
	cleanup_free uint8_t *block = malloc(HASH_BLOCK_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int e = -ENOMEM;

	if (digest_init() == 0 && block != NULL && ctx != NULL)
		e = hash_stream(fd, ctx, block, hex);
	EVP_MD_CTX_free(ctx);
	return e;
}
