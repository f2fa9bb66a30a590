/*
 * answer: what libcaisson's calls return, JSON texts, on their way to a person or a program.
 */
#ifndef CLIENT_ANSWER_H
#define CLIENT_ANSWER_H

#include "client/cells.h"
#include "common/walk.h"

#define ANSWER_CURSOR_MAX 1024

struct answer_column {
	const char *head;
	const char *member;
	enum { ANSWER_TEXT, ANSWER_NUMBER, ANSWER_TIME } kind;
	const char *before; /* a member that stands before it, with a slash; NULL: none */
};

/* A page: an object with a list of objects, and `next`. */
struct answer_shape {
	const char *list;
	struct answer_column columns[CELLS_COLUMNS_MAX]; /* up to the first without head */
};
extern const struct answer_shape answer_sessions, answer_operations, answer_files;

/* One object: on one line, or for people over several.  0; -EINVAL; -ENOMEM. */
int answer_print(const char *text, bool jsonl, struct buf *out);
/* Each object of a page on a line; `cursor` of the next page, "" for none.  Likewise. */
int answer_print_rows(const char *text, const struct answer_shape *shape, struct buf *out,
    char cursor[ANSWER_CURSOR_MAX]);

/* The list of a page, read into `page`, which starts empty.  Likewise. */
int answer_rows(const char *text, const struct answer_shape *shape, struct buf *page,
    struct value *ret_list, char cursor[ANSWER_CURSOR_MAX]);

struct answer_table {
	const struct answer_shape *shape;
	const char *heads[CELLS_COLUMNS_MAX];
	struct cells cells;
};
void answer_table_init(struct answer_table *t, const struct answer_shape *shape);
/* Adds a page.  Likewise. */
int answer_table_add(
    struct answer_table *t, const char *text, char cursor[ANSWER_CURSOR_MAX]);
void answer_table_render(const struct answer_table *t, struct buf *out);
void answer_table_finish(struct answer_table *t);

#endif /* CLIENT_ANSWER_H */
