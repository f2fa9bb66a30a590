#include "supervisor/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

struct reader {
	yaml_parser_t parser;
	yaml_event_t event;
	bool has_event;
	unsigned count;
	struct node_error *err;
};

static struct node_at
at_mark(yaml_mark_t mark)
{
	return (struct node_at){ (uint32_t)mark.line + 1, (uint32_t)mark.column + 1 };
}

__attribute__((format(printf, 3, 4))) static bool
refuse(struct reader *r, struct node_at at, const char *fmt, ...)
{
	va_list ap;

	r->err->at = at;
	va_start(ap, fmt);
	vsnprintf(r->err->text, sizeof(r->err->text), fmt, ap);
	va_end(ap);
	return false;
}

static void
drop_event(struct reader *r)
{
	if (r->has_event)
		yaml_event_delete(&r->event);
	r->has_event = false;
}

/* Moves to the next event; the one before is gone. */
static bool
next_event(struct reader *r)
{
	drop_event(r);
	if (!yaml_parser_parse(&r->parser, &r->event)) {
		yaml_mark_t mark = r->parser.problem_mark;

		return refuse(r, at_mark(mark), "%s%s%s",
		    r->parser.context ? r->parser.context : "", r->parser.context ? ": " : "",
		    r->parser.problem ? r->parser.problem : "out of memory");
	}
	r->has_event = true;
	return true;
}

void
node_destroy(struct node *node)
{
	size_t i, n;

	if (!node)
		return;
	n = node->kind == NODE_MAP ? 2 * node->n : node->kind == NODE_LIST ? node->n : 0;
	for (i = 0; i < n; i++)
		node_destroy(node->items[i]);
	free(node->items);
	free(node->text);
	free(node);
}

/* Takes `item`; false if memory is out. */
static bool
append_item(struct node *node, struct node *item)
{
	size_t n = node->kind == NODE_MAP ? 2 * node->n : node->n;
	struct node **items;

	if (n + 2 > node->cap) {
		items = reallocarray(node->items, n ? 2 * n : 8, sizeof(*items));
		if (!items)
			return false;
		node->items = items;
		node->cap = n ? 2 * n : 8;
	}
	node->items[n] = item;
	return true;
}

static bool read_node(struct reader *r, unsigned depth, struct node **ret);

static bool
read_list(struct reader *r, struct node *list, unsigned depth)
{
	struct node *item;

	for (;;) {
		if (!next_event(r))
			return false;
		if (r->event.type == YAML_SEQUENCE_END_EVENT)
			return true;
		if (!read_node(r, depth + 1, &item))
			return false;
		if (!append_item(list, item)) {
			node_destroy(item);
			return refuse(r, list->at, "out of memory");
		}
		list->n++;
	}
}

static bool
has_key(const struct node *map, const char *key)
{
	size_t i;

	for (i = 0; i < map->n; i++)
		if (!strcmp(map->items[2 * i]->text, key))
			return true;
	return false;
}

static bool
check_key(struct reader *r, const struct node *map, const struct node *key)
{
	if (key->kind != NODE_TEXT)
		return refuse(r, key->at, "a key is a list or a mapping, expected text");
	if (key->plain && !strcmp(key->text, "<<"))
		return refuse(r, key->at, "merge keys (<<) are not read, write the keys out");
	if (strlen(key->text) > NODE_KEY_MAX)
		return refuse(r, key->at, "%.20s...: a key of more than %d bytes", key->text,
		    NODE_KEY_MAX);
	if (has_key(map, key->text))
		return refuse(r, key->at, "%.100s: the key stands here twice", key->text);
	if (map->n >= NODE_KEYS_MAX)
		return refuse(
		    r, key->at, "more than %u keys in one mapping", (unsigned)NODE_KEYS_MAX);
	return true;
}

static bool
read_map(struct reader *r, struct node *map, unsigned depth)
{
	struct node *key, *value;

	for (;;) {
		if (!next_event(r))
			return false;
		if (r->event.type == YAML_MAPPING_END_EVENT)
			return true;
		if (!read_node(r, depth + 1, &key))
			return false;
		if (!check_key(r, map, key) || !next_event(r) ||
		    !read_node(r, depth + 1, &value)) {
			node_destroy(key);
			return false;
		}
		if (!append_item(map, key)) {
			node_destroy(key);
			node_destroy(value);
			return refuse(r, map->at, "out of memory");
		}
		map->items[2 * map->n + 1] = value;
		map->n++;
	}
}

static bool
read_text(struct reader *r, struct node *node)
{
	const char *text = (const char *)r->event.data.scalar.value;

	node->n = r->event.data.scalar.length;
	node->plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	if (memchr(text, '\0', node->n))
		return refuse(r, node->at, "the text holds a NUL");
	node->text = strndup(text, node->n);
	return node->text || refuse(r, node->at, "out of memory");
}

/* Anchors and tags say something that a reader of the file would have to look up. */
static bool
check_plain(struct reader *r, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor)
		return refuse(r, at_mark(r->event.start_mark), "anchors (&) are not read, write it out");
	if (tag)
		return refuse(r, at_mark(r->event.start_mark), "tags (!) are not read, leave it out");
	return true;
}

static bool
read_body(struct reader *r, struct node *node, unsigned depth)
{
	switch (r->event.type) {
	case YAML_SCALAR_EVENT:
		node->kind = NODE_TEXT;
		return check_plain(r, r->event.data.scalar.anchor, r->event.data.scalar.tag) &&
		       read_text(r, node);
	case YAML_SEQUENCE_START_EVENT:
		node->kind = NODE_LIST;
		return check_plain(r, r->event.data.sequence_start.anchor,
			   r->event.data.sequence_start.tag) &&
		       read_list(r, node, depth);
	case YAML_MAPPING_START_EVENT:
		node->kind = NODE_MAP;
		return check_plain(r, r->event.data.mapping_start.anchor,
			   r->event.data.mapping_start.tag) &&
		       read_map(r, node, depth);
	case YAML_ALIAS_EVENT:
		return refuse(r, node->at, "aliases (*) are not read, write it out");
	default: return refuse(r, node->at, "expected a value");
	}
}

/* Reads the value that the current event begins. */
static bool
read_node(struct reader *r, unsigned depth, struct node **ret)
{
	struct node_at at = at_mark(r->event.start_mark);
	struct node *node;

	if (depth > NODE_DEPTH_MAX)
		return refuse(r, at, "nested deeper than %d levels", NODE_DEPTH_MAX);
	if (++r->count > NODE_COUNT_MAX)
		return refuse(r, at, "more than %u values", NODE_COUNT_MAX);
	node = calloc(1, sizeof(*node));
	if (!node)
		return refuse(r, at, "out of memory");
	node->at = at;
	if (!read_body(r, node, depth)) {
		node_destroy(node);
		return false;
	}
	*ret = node;
	return true;
}

static bool
read_document(struct reader *r, struct node **ret)
{
	if (!next_event(r) || !next_event(r)) /* the stream, then the document */
		return false;
	if (r->event.type == YAML_STREAM_END_EVENT)
		return refuse(r, at_mark(r->event.start_mark), "the file is empty");
	if (r->event.data.document_start.version_directive ||
	    r->event.data.document_start.tag_directives.start !=
		r->event.data.document_start.tag_directives.end)
		return refuse(r, at_mark(r->event.start_mark), "directives (%%) are not read");
	if (!next_event(r) || !read_node(r, 1, ret))
		return false;
	if (!next_event(r) || !next_event(r)) /* the document's end, the stream's end */
		return false;
	if (r->event.type != YAML_STREAM_END_EVENT)
		return refuse(r, at_mark(r->event.start_mark),
		    "a second document begins here, expected one");
	return true;
}

struct node *
node_read(const void *p, size_t n, struct node_error *err)
{
	struct reader r = { .err = err };
	struct node *root = NULL;

	*err = (struct node_error){ .at = { 1, 1 } };
	if (n > NODE_BYTES_MAX) {
		refuse(&r, err->at, "over %u bytes long", NODE_BYTES_MAX);
		return NULL;
	}
	if (!yaml_parser_initialize(&r.parser)) {
		refuse(&r, err->at, "out of memory");
		return NULL;
	}
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, p, n);
	if (!read_document(&r, &root)) {
		node_destroy(root);
		root = NULL;
	}
	drop_event(&r);
	yaml_parser_delete(&r.parser);
	return root;
}

bool
node_is_nothing(const struct node *node)
{
	return node->kind == NODE_TEXT && node->plain &&
	       (node->n == 0 || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}
