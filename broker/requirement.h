/*
 * requirement: what one call of a tool needs: action, resource namespace and path, from
 * the tool's declaration and the call's arguments.
 *
 * A template is segments: a literal, or {name}, a whole segment that stands for the
 * segments of the string argument of that name: "{path}", "docs/{name}", "{dir}/{name}".
 * An argument that is optional and absent, and one that is "" or ".", stands for no
 * segments; "" is the root.
 */
#ifndef BROKER_REQUIREMENT_H
#define BROKER_REQUIREMENT_H

#include "broker/authority/authority.h"
#include "broker/schema.h"
#include "common/protocol.h"

#define REQUIREMENT_PLACEHOLDERS_MAX 8 /* each looks through the arguments once */

struct requirement_template;

/*
 * Compiles `text`; each placeholder must name a string property of `schema`, which is not
 * kept.  Returns 0; -EINVAL with what is wrong in `err`; -ENOMEM.
 */
int requirement_compile(const char *text, const struct schema *schema,
    struct requirement_template **ret, char *err, size_t cap);
/* NULL is allowed. */
void requirement_destroy(struct requirement_template *t);

/* Starts as zeroes.  May be moved. */
struct resolved_requirement {
	struct requirement requirement; /* path within `memory`; the rest as it was given */
	struct buf path; /* the path as a packed list, for tool.call and the record */
	void *memory;
};

/*
 * Resolves.  `namespace` and `action` are borrowed into `ret`; nothing of `arguments` is.
 * The owner is left to the context (TU-37).  Returns 0; -EINVAL with the contract's code
 * in `ret_code` (static text) and the argument and the rule in `err`, never its value:
 *
 *   tool_requirement_resolution_failed   an argument is missing, or is no string
 *   invalid_request                      what came out is not a path (TU-35)
 *
 * or -ENOMEM.  On failure `ret` is zeroes.
 */
int requirement_resolve(const struct requirement_template *t, const char *namespace,
    const char *action, struct slice arguments, struct resolved_requirement *ret,
    const char **ret_code, char *err, size_t cap);
/* Releases what `r` holds; zeroes are allowed. */
void requirement_finish(struct resolved_requirement *r);

#endif /* BROKER_REQUIREMENT_H */
