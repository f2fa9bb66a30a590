#include "worker/files/literal.h"

#include <string.h>

void
literal_init(struct literal *l, struct slice text, bool ignore_case)
{
	size_t i, k = 0;

	for (i = 0; i < sizeof(l->fold); i++)
		l->fold[i] = (uint8_t)(ignore_case && i >= 'A' && i <= 'Z' ? i - 'A' + 'a' : i);
	l->n = text.n;
	l->ignore_case = ignore_case;
	for (i = 0; i < text.n; i++)
		l->text[i] = l->fold[text.p[i]];
	l->back[0] = 0;
	for (i = 1; i < l->n; i++) {
		while (k > 0 && l->text[i] != l->text[k])
			k = l->back[k - 1];
		k += l->text[i] == l->text[k];
		l->back[i] = (uint16_t)k;
	}
}

size_t
literal_find(const struct literal *l, const uint8_t *p, size_t n, size_t *state)
{
	const uint8_t *first;
	size_t i, k = *state;
	uint8_t c;

	for (i = 0; i < n; i++) {
		if (k == 0 && !l->ignore_case) {
			first = memchr(p + i, l->text[0], n - i);
			if (first == NULL)
				break;
			i = (size_t)(first - p);
		}
		c = l->fold[p[i]];
		while (k > 0 && c != l->text[k])
			k = l->back[k - 1];
		k += c == l->text[k];
		if (k == l->n) {
			*state = 0;
			return i + 1;
		}
	}
	*state = k;
	return 0;
}
