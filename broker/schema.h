/*
 * schema: the JSON Schema of a tool's arguments: compiled when the tool is declared, checked
 * at every call, before the decision, on the packed value itself.
 *
 * Draft-07, but for what is refused when it is declared: references that lead out of the
 * document, $id below its root, patterns that no automaton can match (schema_pattern.h), other
 * drafts, and every keyword that is not draft-07's, unless it begins with "x-".  Nothing that
 * was meant as a check is passed over at a call.
 *
 *   integer      1.0 is one
 *   multipleOf   exact, of what the numbers say as text: 0.3 is a multiple of 0.1
 *   format       and contentEncoding, contentMediaType, title, description, default,
 *                examples, readOnly, writeOnly: told, and never checked or filled in
 *   $ref         beside it draft-07 ignores everything
 *
 * The cost of a check is bounded by the size of the value, whatever the schema: a step is the
 * visit of a schema, a member, an instruction of a pattern.  A check that takes more refuses.
 */
#ifndef BROKER_SCHEMA_H
#define BROKER_SCHEMA_H

#include "common/protocol.h"

#define SCHEMA_NODES_MAX    4096  /* schemas in one declaration */
#define SCHEMA_NAMES_MAX    512	  /* in properties, required and dependencies of one schema */
#define SCHEMA_PATTERNS_MAX 65536 /* instructions of all patterns */

#define SCHEMA_STEPS_BASE     (1 << 16) /* of a check, */
#define SCHEMA_STEPS_PER_BYTE 16	/* more for each byte of the value, */
#define SCHEMA_STEPS_MAX      (1 << 21) /* and no more: 35 ms at worst, measured */

enum schema_type {
	SCHEMA_STRING,
	SCHEMA_INTEGER,
	SCHEMA_NUMBER,
	SCHEMA_BOOLEAN,
	SCHEMA_ARRAY,
	SCHEMA_OBJECT,
	SCHEMA_NULL,
	SCHEMA_SEVERAL, /* or any */
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
 * Checks `value`, which a walk has passed.  Returns 0; -EINVAL, which is
 * `invalid_tool_arguments`, with "/where/in/the/value: what (schema /where/in/it)" in `err`;
 * -ENOMEM.  A value is never in `err`, and a name only if the schema has it: "#2" is the second
 * member, of another name (D-12).
 */
int schema_check(const struct schema *s, struct slice value, char *err, size_t cap);

/* Does its root let in objects only? */
bool schema_is_of_objects(const struct schema *s);
/*
 * The type of the property of that name (`n` bytes), and whether it is required.  Returns
 * 0, or -ENOENT if there is none.
 */
int schema_property(const struct schema *s, const char *name, size_t n,
    enum schema_type *ret_type, bool *ret_required);

#endif /* BROKER_SCHEMA_H */
