/*
 * The configuration reader.  What it accepts must be packable for a broker, and must read
 * back, as it is shown, as the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/config.h"
#include "supervisor/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *
show(const struct conf_namespace *c, size_t *ret_n)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, ret_n);

	if (!f)
		abort();
	conf_show(f, c);
	fclose(f);
	return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t key[PACK_KEY];
	struct pack_facts facts = { .kind = operation_kind_turn, .timeout_ms = 1, .key = key };
	struct conf_namespace c, again;
	char err[CONF_ERROR_MAX] = "", *first, *second;
	struct buf b = { 0 };
	size_t n, m;

	if (conf_read("/f.yaml", data, size, &c, err) < 0) {
		if (!*err)
			abort();
		conf_finish(&c);
		return 0;
	}
	if (pack_config(&b, &c, &facts) < 0)
		abort();
	first = show(&c, &n);
	if (conf_read("/f.yaml", first, n, &again, err) < 0)
		abort();
	second = show(&again, &m);
	if (n != m || memcmp(first, second, n) != 0)
		abort();
	free(first);
	free(second);
	buf_finish(&b);
	conf_finish(&c);
	conf_finish(&again);
	return 0;
}
