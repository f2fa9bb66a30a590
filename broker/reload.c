#include "broker/broker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker/feed.h"
#include "broker/grants.h"
#include "broker/record.h"
#include "broker/sandbox.h"
#include "broker/shared.h"
#include "broker/standing.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"

/*
 * The configuration, and one that follows it.  It is read and checked off to the side; then, in
 * one turn of the loop, its grants stand, its record is appended and every operation that is
 * admitted afterwards begins under it, so that the record says it before any decision by it.
 * What began before holds its own and goes on.  The supervisor hears of it when it is durable,
 * and before the first order under it.
 */

#define STALL_MS 1000

void
reload_set_stall(struct broker *b)
{
	/* A kill does not wait for the disk, and the ending it makes not much longer. */
	journal_stall_after(b->journal, b->config->kill_grace_ms + STALL_MS);
}

int
reload_start(struct broker *b)
{
	const char *id;

	TAILQ_INIT(&b->configs);
	TAILQ_INSERT_TAIL(&b->configs, b->config, entry);
	b->grant_set = grant_set_create(b->config->revocation);
	b->standing = b->grant_set != NULL ? standing_create(b->grant_set) : NULL;
	if (b->standing == NULL)
		return -ENOMEM;
	if (principals_start(b) < 0)
		return -ENOMEM;
	return standing_replace(
	    b->standing, b->config, b->config->generation, clock_wall_ms(), &id);
}

void
reload_finish(struct broker *b)
{
	grant_set_destroy(b->grant_set);
	standing_destroy(b->standing);
	principals_finish(b);
	config_release(b->replaced);
	config_release(b->config);
}

void
reload_release(struct broker *b, struct config *c)
{
	struct control over = { .verb = CONTROL_CONFIG_OVER, .generation = c->generation };

	if (config_users(c) > 1) {
		config_release(c);
		return;
	}
	TAILQ_REMOVE(&b->configs, c, entry);
	config_release(c);
	standing_forget(b->standing, TAILQ_FIRST(&b->configs)->generation);
	control_tell(b, &over);
}

/* ---- one that follows ----------------------------------------------------------------- */

/* What links, record and authority are made with goes with the broker, not with a file. */
static int
check_follows(const struct config *now, const struct config *next)
{
	const char *what = strcmp(now->namespace, next->namespace) != 0   ? "namespace"
			   : strcmp(now->authority, next->authority) != 0 ? "authority"
			   : strcmp(now->owner, next->owner) != 0	  ? "owner"
			   : now->durability != next->durability	  ? "durability"
			   : now->revocation != next->revocation	  ? "revocation"
			   : now->operator != next->operator		  ? "operator"
			   : memcmp(now->key, next->key, sizeof now->key) != 0 ? "key"
			   : next->generation <= now->generation ? "generation" : NULL;

	if (what == NULL)
		return 0;
	log_error("configuration: %s: cannot follow the one that is in force", what);
	return -EINVAL;
}

/* Which of its rows is to blame goes into `answer`. */
static int
read_next(int fd, struct config **ret, struct control *answer)
{
	struct fault fault = { 0 };
	const char *row = "";
	int r = config_read(fd, ret, &fault, &row);

	if (r != -EINVAL)
		return r;
	answer->kind = config_fault_row(&answer->index);
	log_error("configuration: %s: %s: %s", row, fault.field != NULL ? fault.field : "frame",
	    fault.rule != NULL ? fault.rule : "unknown");
	return r;
}

/* The id of one of its grants that the operator has given, or is giving; NULL: of none. */
static const char *
find_issued(const struct broker *b, const struct config *next)
{
	const struct grant_fact *f;
	size_t i;

	for (i = 0; i < next->ngrants; i++) {
		f = grants_fact(b->grants, slice_of(next->grants[i].id));
		if (f != NULL && (f->issued || f->reserved))
			return next->grants[i].id;
	}
	return NULL;
}

static int
take_grants(struct broker *b, const struct config *next, struct control *answer)
{
	const char *id = find_issued(b, next);
	int r = id != NULL ? -EEXIST
			   : standing_replace(
				 b->standing, next, next->generation, clock_wall_ms(), &id);

	if (r == 0)
		grants_reapply(b->grants);
	if (r != -EEXIST)
		return r;
	log_error(
	    "configuration: grant %s: a grant that was given at run time has this id", id);
	answer->kind = CONFIG_ROW_GRANT;
	while (next->grants[answer->index].id != id)
		answer->index++;
	return r;
}

static void
reload_on_record(void *arg, bool ok)
{
	struct broker *b = arg;
	struct config *before = b->replaced;
	struct control taken = {
		.verb = CONTROL_CONFIG_TAKEN, .generation = b->config->generation
	};

	if (!ok)
		log_warn("the configuration is in force, and not on record before the journal "
			 "can be written again");
	STOP_POINT("broker.reload_durable");
	b->replaced = NULL;
	control_tell(b, &taken);
	sandboxes_on_taken(b);
	shared_on_taken(b);
	reload_release(b, before);
	STOP_POINT("broker.reload_told");
}

/* From here on there is no way back, and nothing that could fail. */
static void
reload_apply(struct broker *b, struct config *next)
{
	struct record r;
	char detail[96];

	b->replaced = b->config;
	b->config = next;
	TAILQ_INSERT_TAIL(&b->configs, next, entry);
	principals_apply(b);
	reload_set_stall(b);
	feeds_on_config(b->feeds);
	sandboxes_on_config(b);
	shared_on_config(b);
	record_init(&r, b, NULL, "configuration.reloaded");
	snprintf(detail, sizeof detail, "%zu runtimes, %zu providers, %zu tools, %zu grants",
	    next->nruntimes, next->nproviders, next->ntools, next->ngrants);
	RECORD_TEXT(&r.m, detail, detail);
	RECORD_SLICE(&r.m, digest, ((struct slice){ next->digest, sizeof next->digest }));
	if (record_append(&r, JOURNAL_ENDING, reload_on_record, b) < 0)
		reload_on_record(b, false);
	STOP_POINT("broker.reload_applied");
}

void
reload_on_config(struct broker *b, const struct control *c, int fd)
{
	struct control answer = {
		.verb = CONTROL_CONFIG_TAKEN, .generation = c->generation
	};
	struct config *next = NULL;
	int r = fd < 0 || b->replaced != NULL ? -EPROTO
		: !b->ready || b->shutting_down ? -EAGAIN
						: read_next(fd, &next, &answer);

	STOP_POINT("broker.reload_received");
	util_close(&fd);
	if (r == 0 && next->generation != c->generation)
		r = -EPROTO;
	if (r == 0)
		r = check_follows(b->config, next);
	if (r == 0)
		r = principals_prepare(b, next);
	if (r == 0)
		r = take_grants(b, next, &answer);
	if (r == 0) {
		reload_apply(b, next);
		return;
	}
	config_release(next);
	answer.error = -r;
	control_tell(b, &answer);
}
