/*
 * config_compare: what sets one configuration apart from another, key by key.
 */
#ifndef SUPERVISOR_CONFIG_COMPARE_H
#define SUPERVISOR_CONFIG_COMPARE_H

#include "supervisor/config.h"

/* What a change of a key means to a daemon that runs. */
enum conf_effect {
	CONF_APPLIES,
	CONF_RESTART, /* it keeps what it has until it is started again */
	/* who it is, and whose word counts there: nothing else of the file would mean the
	 * same */
	CONF_IDENTITY,
};

enum conf_how {
	CONF_CHANGED,
	CONF_NEW,
	CONF_GONE,
};

struct conf_change {
	const char *key; /* "limits.turn_timeout", "tools[files.read]" */
	enum conf_how how;
	enum conf_effect effect;
	struct node_at at; /* in the later one; of what is gone in the earlier one */
};

typedef void conf_change_fn(const struct conf_change *c, void *arg);

/*
 * Tells of each key of the root, of `limits`, and of each element of a list by its id, that `b`
 * has otherwise than `a`.  Both are complete.  What the file does not hold (the grants that a
 * daemon adds itself) is no change.
 */
void conf_compare(const struct conf_namespace *a, const struct conf_namespace *b,
    conf_change_fn *fn, void *arg);

/*
 * Which runtime (provider) of `other` makes the very processes that the `i`-th of `c` makes: of
 * its id, and with the same row and profile.  SIZE_MAX: none does.  Both are complete.
 */
size_t conf_same_runtime(
    const struct conf_namespace *c, size_t i, const struct conf_namespace *other);
size_t conf_same_provider(
    const struct conf_namespace *c, size_t i, const struct conf_namespace *other);

/* Gives `c` those of `running` whose change would need a restart.  0, or -ENOMEM. */
int conf_keep(struct conf_namespace *c, const struct conf_namespace *running);

#endif /* SUPERVISOR_CONFIG_COMPARE_H */
