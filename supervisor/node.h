/*
 * node: a YAML document as a tree that remembers line and column of everything.
 *
 * Reads with libyaml's event parser.  One document; no aliases, anchors, tags, merge keys
 * or directives; no key twice; bounded in bytes, depth, values and keys, so that neither a
 * mistake nor malice costs more than reading the file.  Knows nothing of the
 * configuration.  No I/O.
 */
#ifndef SUPERVISOR_NODE_H
#define SUPERVISOR_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_BYTES_MAX (1u << 20) /* of a document: a thousand grants fit */
#define NODE_DEPTH_MAX 24	  /* below VALUE_DEPTH_MAX: a schema in it still fits a frame */
#define NODE_COUNT_MAX (1u << 16)
#define NODE_KEY_MAX                                                                           \
	256 /* bytes of a key; YAML itself reads no key over 1024 characters back */
#define NODE_KEYS_MAX 512 /* of one mapping: finding a duplicate is quadratic */

/* Where something stands; line 0: nowhere (it came from the command line). */
struct node_at {
	uint32_t line, column; /* from 1 */
};

enum node_kind {
	NODE_TEXT,
	NODE_LIST,
	NODE_MAP,
};

struct node {
	enum node_kind kind;
	struct node_at at;
	bool plain; /* NODE_TEXT without quotes: may be a number, a boolean, nothing */
	char *text; /* NODE_TEXT; UTF-8, NUL-terminated, holds no other NUL */
	size_t n;   /* bytes of text; elements of a list; pairs of a map */
	size_t cap;
	struct node **items; /* a map: key, value, key, value, ... */
};

struct node_error {
	struct node_at at;
	char text[200];
};

/*
 * Reads `n` bytes.  Returns the root, for node_destroy(), or NULL with `err` filled (also
 * when memory is out).
 */
struct node *node_read(const void *p, size_t n, struct node_error *err);
/* NULL is allowed. */
void node_destroy(struct node *root);
/* True for a plain scalar that YAML reads as null: nothing, ~ or null. */
bool node_is_nothing(const struct node *node);

#endif /* SUPERVISOR_NODE_H */
