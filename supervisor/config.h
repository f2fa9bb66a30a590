/*
 * conf: the configuration of one namespace, from a file or from a command line.
 *
 * The grammar is config.def; this module owns the structs that it spells out.  Reading is
 * strict: what is not understood, or cannot hold, is an error with its place and key, and
 * what is missing means none.  Paths in a file are relative to the file's directory, and
 * absolute once they are resolved.  No I/O but conf_open() and conf_resolve(); never logs.
 *
 * Usual order: conf_open() or conf_init() and fields by hand; conf_complete();
 * conf_resolve(); pack.h; conf_finish().
 */
#ifndef SUPERVISOR_CONFIG_H
#define SUPERVISOR_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/control.h"
#include "common/protocol.h"
#include "supervisor/node.h"
#include "supervisor/standby.h"

struct profile;

#define WORKSPACE_TARGET  "/workspace" /* where a chamber shows a session's */
#define SESSIONS_OPEN_MAX 4096 /* ceiling of sessions.max */

enum conf_builtin {
	BUILTIN_NONE,
	BUILTIN_FILES,
};
enum conf_runtime_builtin {
	RUNTIME_OWN,
	RUNTIME_COMMAND,
};
enum conf_provider_scope {
	PROVIDER_SESSION,
	PROVIDER_SHARED,
};
extern const char *const conf_names_profile_network[]; /* enum profile_network */
extern const char *const conf_names_builtin[];
extern const char *const conf_names_runtime_builtin[];
extern const char *const conf_names_retention[];
extern const char *const conf_names_provider_scope[];
extern const char *const conf_names_effect[];
extern const char *const conf_names_scope[];
extern const char *const conf_names_durability[];
extern const char *const conf_names_revocation[];

/* Owned texts; v[n] is NULL once it holds any. */
struct conf_words {
	char **v;
	size_t n;
};

/* One owned, packed value. */
struct conf_packed {
	uint8_t *p;
	size_t n;
};

/* struct conf_runtime, conf_tool, ..., conf_namespace: `has_<key>` is true for what
 * was said, `at_<key>` is where; what was not said holds its fallback. */
#define FIELD(type, key)       bool has_##key; struct node_at at_##key; type key;
#define SECTION(id)	       struct conf_##id { struct node_at at;
#define END(id)		       };
#define TEXT(s, k, lo, hi, need, fallback, doc) FIELD(char *, k)
#define PROSE(s, k, hi, doc)      FIELD(char *, k)
#define ADDRESS(s, k, need, fallback, doc) FIELD(char *, k)
#define FILE_AT(s, k, need, doc)  FIELD(char *, k)
#define WORDS(s, k, lo, hi, need, doc) FIELD(struct conf_words, k)
#define NUMBER(s, k, lo, hi, fallback, doc) FIELD(uint64_t, k)
#define DURATION(s, k, lo, hi, fallback, doc) FIELD(uint64_t, k)
#define SIZE(s, k, lo, hi, fallback, doc) FIELD(uint64_t, k)
#define BITS(s, k, hi, need, doc) FIELD(uint64_t, k)
#define SWITCH(s, k, fallback, doc) FIELD(bool, k)
#define CHOICE(s, k, names, need, fallback, doc) FIELD(unsigned, k)
#define INSTANT(s, k, need, doc)  FIELD(uint64_t, k)
#define SEGMENTS(s, k, need, doc) FIELD(struct conf_words, k)
#define SCHEMA(s, k, need, doc)   FIELD(struct conf_packed, k)
#define MAPPING(s, k, hi, need, doc) FIELD(struct conf_packed, k)
#define INSIDE(s, k, section, need, doc) FIELD(struct conf_##section, k)
#define WHOLE(s, k, section, doc) FIELD(struct conf_##section, k)
#define SEVERAL(s, k, section, hi, doc) \
	FIELD(struct { struct conf_##section *v; size_t n; }, k)
#define BUILT(s, k, type) type k;
#include "supervisor/config.def"
#undef FIELD

struct conf_section;

enum conf_type {
	CONF_TEXT,
	CONF_PROSE,
	CONF_ADDRESS,
	CONF_FILE,
	CONF_WORDS,
	CONF_NUMBER,
	CONF_DURATION,
	CONF_SIZE,
	CONF_BITS,
	CONF_SWITCH,
	CONF_CHOICE,
	CONF_INSTANT,
	CONF_SEGMENTS,
	CONF_SCHEMA,
	CONF_INSIDE,
	CONF_SEVERAL,
	CONF_TYPE_MAX,
};

/* One row of config.def. */
struct conf_field {
	const char *key; /* NULL ends the list */
	enum conf_type type;
	bool required;
	size_t has, at, value; /* offsets in the section's struct */
	uint64_t min, max; /* bytes, elements or the value, by type */
	uint64_t number; /* fallback; CONF_INSIDE: 1, left out there is none */
	const char *text; /* fallback, may be NULL; CONF_SCHEMA: what it is, in an error */
	const char *const *names; /* CONF_CHOICE; NULL-terminated */
	const struct conf_section *section; /* CONF_INSIDE, CONF_SEVERAL */
	const char *doc;
};

struct conf_section {
	const char *name;
	size_t size;
	const struct conf_field *fields;
};
extern const struct conf_section conf_root; /* struct conf_namespace */

/* SEVERAL as the tables see it. */
struct conf_list {
	void *v;
	size_t n;
};

#define CONF_ERROR_MAX 1024

/*
 * Reads the file `path` into `ret` and completes it.  Returns 0; or a negative errno, with
 * one line in `err`: FILE:LINE:COLUMN: key: what is wrong, and what is expected.  `ret` can
 * be finished either way.
 */
int conf_open(const char *path, struct conf_namespace *ret, char err[CONF_ERROR_MAX]);

/* The same for bytes; `path` is named in errors, its directory is what paths in it are
 * relative to. */
int conf_read(const char *path, const void *p, size_t n, struct conf_namespace *ret,
    char err[CONF_ERROR_MAX]);

/* Everything as it is when nothing is said.  -ENOMEM or 0. */
int conf_init(struct conf_namespace *ret);
void conf_finish(struct conf_namespace *c);

/*
 * Builds the profiles (once), gives every builtin provider without tools its own, then checks
 * all that one field alone cannot say: references, duplicates, templates, windows.  `file`
 * stands in errors.  Returns 0, -EINVAL or -ENOMEM, as conf_open().
 */
int conf_complete(struct conf_namespace *c, const char *file, char err[CONF_ERROR_MAX]);

/*
 * Are the directories and files of the machine that it names there?  Puts their real paths
 * in their places, as the launcher follows no links.  Returns and `err` as conf_open().
 */
int conf_resolve(struct conf_namespace *c, const char *file, char err[CONF_ERROR_MAX]);

/* The profile `name`, built in or of `c`, which owns it; NULL if there is none.  After
 * conf_complete(). */
const struct profile *conf_profile_named(const struct conf_namespace *c, const char *name);

/* Prints it as YAML that reads back as the same. */
void conf_show(FILE *f, const struct conf_namespace *c);
/* One element of `profiles`, without its `syscalls`, as conf_show() has it. */
void conf_show_profile(FILE *f, const struct conf_profile *p);

/* Appends one zeroed-and-initialized element to the SEVERAL `list` of `section`; NULL if memory
 * is out.  Valid until the next call on the list. */
void *conf_add(const struct conf_section *section, struct conf_list *list);
/* Drops all elements from the `n`-th on. */
void conf_truncate(const struct conf_section *section, struct conf_list *list, size_t n);
/* The section of the root's list `key`; never NULL for one of config.def. */
const struct conf_section *conf_list_section(const struct conf_section *s, const char *key);
/* Gives the section `ret` what `from`, another of its kind, has in the field.  -ENOMEM or 0. */
int conf_copy(const struct conf_field *f, void *ret, const void *from);
/* Appends a copy of `n` bytes.  -ENOMEM or 0. */
int conf_words_add(struct conf_words *w, const char *text, size_t n);
void conf_words_finish(struct conf_words *w);

/* "FILE:LINE:COLUMN: text" into `err`, without what `at` does not know.  Returns -EINVAL. */
int conf_refuse(char err[CONF_ERROR_MAX], const char *file, struct node_at at,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The same for the row that a broker does not take, which has said why itself. */
int conf_refuse_row(char err[CONF_ERROR_MAX], const char *file, const struct conf_namespace *c,
    enum config_row_kind row, uint32_t index);

/*
 * Splits "a/b" into segments as TU-35 wants them ("." is no segment: the root), into `ret`,
 * which is empty.  Returns NULL, or what is wrong with it (static text).
 */
const char *conf_split_path(const char *text, struct conf_words *ret);

/* A value of YAML, packed canonically for a frame.  0, -ENOMEM, or as conf_refuse(). */
int conf_pack_value(const struct node *node, struct buf *out, const char *file,
    char err[CONF_ERROR_MAX]);

#endif /* SUPERVISOR_CONFIG_H */
