/*
 * schema_value: values as JSON Schema sees them: 1.0 is 1, the order of members is nothing,
 * and 0.1 is a tenth.
 */
#ifndef BROKER_SCHEMA_VALUE_H
#define BROKER_SCHEMA_VALUE_H

#include <float.h>

#include "common/walk.h"

/* Kinds of value, as bits. */
enum {
	KIND_NULL = 1,
	KIND_BOOLEAN = 2,
	KIND_INTEGER = 4,
	KIND_REAL = 8, /* a number that is not whole */
	KIND_NUMBER = KIND_INTEGER | KIND_REAL,
	KIND_STRING = 16,
	KIND_ARRAY = 32,
	KIND_OBJECT = 64,
	KIND_BINARY = 128, /* which JSON does not have: no type lets it in */
	KIND_ANY = 255,
};

/* Of a finite float; from 2^53 on every one is. */
static inline bool
value_is_whole(double d)
{
	return d >= 9007199254740992.0 || d <= -9007199254740992.0 || (double)(int64_t)d == d;
}

/* Which one it is. */
static inline unsigned
value_kind(const struct value *v)
{
	static const uint8_t kinds[] = {
		[VALUE_NIL] = KIND_NULL,
		[VALUE_BOOL] = KIND_BOOLEAN,
		[VALUE_UINT] = KIND_INTEGER,
		[VALUE_INT] = KIND_INTEGER,
		[VALUE_FLOAT] = KIND_REAL,
		[VALUE_STR] = KIND_STRING,
		[VALUE_BIN] = KIND_BINARY,
		[VALUE_ARRAY] = KIND_ARRAY,
		[VALUE_MAP] = KIND_OBJECT,
	};

	return v->type == VALUE_FLOAT && value_is_whole(v->real) ? KIND_INTEGER
								 : kinds[v->type];
}

static inline bool
value_is_number(const struct value *v)
{
	return v->type == VALUE_UINT || v->type == VALUE_INT || v->type == VALUE_FLOAT;
}

/* Of a value_is_number(), exactly: a long double holds what each of the three can. */
static inline long double
value_number(const struct value *v)
{
	return v->type == VALUE_UINT  ? (long double)v->uint
	       : v->type == VALUE_INT ? (long double)v->sint
				      : (long double)v->real;
}

/* A float with so few bits that fewer than 15 digits may say it. */
static inline bool
value_is_subnormal(const struct value *v)
{
	return v->type == VALUE_FLOAT && v->real != 0 && v->real > -DBL_MIN &&
	       v->real < DBL_MIN;
}

/* digits * 10^exponent, without its sign; digits end with no 0, and are 0 for 0. */
struct decimal {
	uint64_t digits;
	int exponent;
};

/*
 * Of a value_is_number().  A float that is an integer of 64 bits is that; any other is what the
 * shortest text says that reads back as the same: 0.1 is a tenth.
 */
struct decimal value_decimal(const struct value *v);
/* Is `a` a whole multiple of `b`, which is not 0?  Exact. */
bool decimal_is_multiple(struct decimal a, struct decimal b);

/*
 * Appends to `b` the form that equal values share: whole floats as integers, members sorted.
 * Returns 0 or -ENOMEM.
 */
int value_equal_form(struct slice value, struct buf *b);

#endif /* BROKER_SCHEMA_VALUE_H */
