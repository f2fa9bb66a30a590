#include "broker/schema_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A whole float that 64 bits can hold?  Writes it as the integer that it is. */
static bool
as_integer(double d, uint64_t *ret_digits)
{
	if (!value_is_whole(d) || d >= 18446744073709551616.0 || d < -9223372036854775808.0)
		return false;
	*ret_digits = d < 0 ? -(uint64_t)(int64_t)d : (uint64_t)d;
	return true;
}

/* ---- decimals ------------------------------------------------------------------------- */

/* d.ddde±dd, as printf() writes it. */
static struct decimal
parse_decimal(const char *text)
{
	struct decimal d = { 0, 0 };
	bool fraction = false;

	for (; *text != 'e'; text++) {
		if (*text < '0' || *text > '9') {
			fraction = fraction || *text == '.';
			continue;
		}
		d.digits = d.digits * 10 + (uint64_t)(*text - '0');
		d.exponent -= fraction;
	}
	d.exponent += (int)strtol(text + 1, NULL, 10);
	return d;
}

struct decimal
value_decimal(const struct value *v)
{
	struct decimal d = { 0, 0 };
	char text[40];
	int precision;

	if (v->type == VALUE_UINT)
		d.digits = v->uint;
	else if (v->type == VALUE_INT)
		d.digits = -(uint64_t)v->sint;
	else if (!as_integer(v->real, &d.digits))
		for (precision = value_is_subnormal(v) ? 0 : 14; precision <= 16; precision++) {
			snprintf(text, sizeof(text), "%.*e", precision, v->real);
			if (strtod(text, NULL) != v->real)
				continue;
			d = parse_decimal(text);
			break;
		}
	for (; d.digits != 0 && d.digits % 10 == 0; d.exponent++)
		d.digits /= 10;
	if (d.digits == 0)
		d.exponent = 0;
	return d;
}

bool
decimal_is_multiple(struct decimal a, struct decimal b)
{
	int more = a.exponent - b.exponent;
	__uint128_t rest;

	if (a.digits == 0)
		return true;
	/* Finer than b: digits that do not end with 0 are no multiple of 10. */
	if (more < 0)
		return false;
	rest = a.digits % b.digits;
	for (; more > 0 && rest != 0; more--)
		rest = rest * 10 % b.digits;
	return rest == 0;
}

/* ---- equality ------------------------------------------------------------------------- */

/* Every part in turn, whole floats as integers; the form of a walk stays what it was. */
static void
put_parts(struct slice in, struct buf *b, bool *ret_maps)
{
	struct value v;
	uint64_t digits;

	while (in.n > 0) {
		v = value_open(&in);
		*ret_maps = *ret_maps || v.type == VALUE_MAP;
		if (v.type != VALUE_FLOAT || !as_integer(v.real, &digits))
			buf_add(b, v.raw.p, v.raw.n);
		else if (v.real < 0)
			pack_int(b, (int64_t)v.real);
		else
			pack_uint(b, digits);
	}
}

int
value_equal_form(struct slice value, struct buf *b)
{
	struct buf plain = { 0 };
	bool maps = false;
	size_t start = b->n;
	int r = 0;

	put_parts(value, b, &maps);
	if (maps && !b->failed) {
		buf_add(&plain, b->p + start, b->n - start);
		b->n = start;
		r = plain.failed ? -ENOMEM : value_canonical(buf_slice(&plain), b);
		buf_finish(&plain);
	}
	return r < 0 ? r : b->failed ? -ENOMEM : 0;
}
