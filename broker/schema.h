/*
 * schema: the JSON Schema of a tool's arguments: compiled when the tool is declared,
 * checked at every call, before the decision.
 *
 * A subset, taken whole: an object with properties, each a string, integer, number,
 * boolean, array of strings, or object with anything in it.
 *
 *   root       type (object), properties, required, additionalProperties (true, false;
 *              left out: false), $schema
 *   string     minLength, maxLength (characters), enum (strings)
 *   integer    minimum, maximum; a float is none, also if it is whole
 *   number     minimum, maximum
 *   array      items: a string, as above
 *   all        title, description, default (which is told, and never filled in)
 *
 * Any other keyword, and one that says nothing about its type, is an error of the
 * declaration: nothing that was meant as a check is passed over at a call.  The cost of a
 * check is bounded by the size of the arguments, times 8 for the longest property list
 * or enum.
 */
#ifndef BROKER_SCHEMA_H
#define BROKER_SCHEMA_H

#include "common/protocol.h"

#define SCHEMA_PROPERTIES_MAX 128
#define SCHEMA_ENUM_MAX	      256 /* strings */

enum schema_type {
	SCHEMA_STRING,
	SCHEMA_INTEGER,
	SCHEMA_NUMBER,
	SCHEMA_BOOLEAN,
	SCHEMA_ARRAY,
	SCHEMA_OBJECT,
};

struct schema;

/*
 * Compiles `packed`, a value that a walk has passed; nothing of it is kept.  Returns 0;
 * -EINVAL with where (a JSON pointer) and what in `err` (`cap` bytes, NUL included);
 * -ENOMEM.
 */
int schema_compile(struct slice packed, struct schema **ret, char *err, size_t cap);
/* NULL is allowed. */
void schema_destroy(struct schema *s);

/*
 * Checks `arguments`, a value that a walk has passed.  Returns 0; or -EINVAL, which is
 * `invalid_tool_arguments`, with the argument and the rule in `err`: never its value, and
 * never a name that the schema does not have (D-12).
 */
int schema_check(const struct schema *s, struct slice arguments, char *err, size_t cap);

/*
 * The type of the property of that name (`n` bytes), and whether it is required.  Returns
 * 0, or -ENOENT if there is none.
 */
int schema_property(const struct schema *s, const char *name, size_t n,
    enum schema_type *ret_type, bool *ret_required);

#endif /* BROKER_SCHEMA_H */
