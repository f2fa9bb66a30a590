/*
 * config_rows: the inside of config: config.c reads the frames and their order,
 * config_rows.c what each of them says.
 */
#ifndef BROKER_CONFIG_ROWS_H
#define BROKER_CONFIG_ROWS_H

#include "broker/config.h"

/* Where rows stand: each kind after the ones before it. */
enum config_part {
	PART_BROKER,
	PART_RUNTIMES,
	PART_PRINCIPALS,
	PART_PROVIDERS,
	PART_TOOLS,
	PART_GRANTS,
	PART_END,
};

struct config_reader {
	struct config *config;
	struct fault *fault;
	struct msg_config_broker head; /* its slices lie in the frames */
	struct slice runtimes_since, providers_since; /* of its lists, elements not yet taken */
	bool begun;
	enum config_part part;					    /* of the last row */
	size_t rows;						    /* of all kinds */
	size_t runtimes, principals, providers, tools, grants;	    /* of each kind */
	size_t proofs, uids; /* of all principals */
	bool in_ceiling, has_ceiling; /* capabilities are the ceiling's; there was one */
	/* of the last grant, or the ceiling */
	struct capability capabilities[AUTHORITY_CAPABILITIES_MAX];
	size_t ncapabilities;
	int error;
};

/* Returns 0 or config_reader.error. */
typedef int config_row_fn(struct config_reader *r, const struct message *m);

struct config_row {
	enum msg_type type;
	enum config_part part;
	config_row_fn *take;
};

/* What is done with a row of that type; NULL if none may stand in a configuration. */
const struct config_row *config_row(enum msg_type type);

/* Names the row being read: "config.tool 2 (files.read)"; `number` may be 0, `id` NULL. */
void config_set_row(struct config_reader *r, const char *kind, size_t number, const char *id);
/* The same text, for config_read()'s caller. */
const char *config_row_text(void);
/* Schema and template, which names properties of it; returns 0 or config_reader.error. */
int config_compile_tool(struct config_reader *r, struct config_tool *t, const char *path);
/* Adds Caisson's own tools behind those of the frames; there is room for OWN_TOOLS. */
#define OWN_TOOLS 1
int config_own_tools(struct config_reader *r);
/* Notes a failure of the row; the first one stands.  `field` is static.  Returns it. */
int config_fail(struct config_reader *r, const char *field, const char *rule);
int config_out_of_memory(struct config_reader *r);
/* A text of the configuration: no NUL in it; an address.  "" or worse, once r->error is set. */
const char *config_take_text(struct config_reader *r, const char *field, struct slice s);
const char *config_take_address(struct config_reader *r, const char *field, struct slice s);
/* A list of strings, at most `max`; NULL if something failed. */
const char **config_take_list(
    struct config_reader *r, const char *field, struct slice list, size_t max, size_t *ret_n);

/* ---- config_principals.c ------------------------------------------------------------- */

int config_take_principal(struct config_reader *r, const struct message *m);
/* Once all are there: no two have an id, a token, a certificate or a uid in common. */
int config_check_principals(struct config_reader *r);

#endif /* BROKER_CONFIG_ROWS_H */
