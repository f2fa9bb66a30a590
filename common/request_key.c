#include "common/request_key.h"

bool
request_key_is_valid(struct slice key)
{
	static const char allowed[] =
	    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.";

	if (key.n == 0 || key.n > REQUEST_KEY_MAX)
		return false;
	for (size_t i = 0; i < key.n; i++)
		if (memchr(allowed, key.p[i], sizeof(allowed) - 1) == NULL)
			return false;
	return true;
}
