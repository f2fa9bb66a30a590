#include "broker/digest.h"

#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"
#include "common/walk.h"

struct digest {
	struct sha256_key key;
	struct buf canonical;
};

struct digest *
digest_create(const uint8_t key[32])
{
	struct digest *d = calloc(1, sizeof *d);

	if (d != NULL)
		sha256_key_init(&d->key, key, 32);
	return d;
}

void
digest_destroy(struct digest *d)
{
	if (d == NULL)
		return;
	buf_finish(&d->canonical);
	explicit_bzero(d, sizeof *d);
	free(d);
}

int
digest_value(struct digest *d, struct slice value, uint8_t ret[32])
{
	int r;

	if (!value_is_canonical(value)) {
		d->canonical.n = 0;
		r = value_canonical(value, &d->canonical);
		if (r < 0)
			return r;
		value = buf_slice(&d->canonical);
	}
	sha256_keyed(&d->key, value, ret);
	return 0;
}
