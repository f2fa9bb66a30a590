#include "broker/broker.h"

#include <errno.h>

#include <event2/event.h>

#include "broker/call.h"
#include "broker/client.h"
#include "broker/feed.h"
#include "broker/grants.h"
#include "broker/journal.h"
#include "broker/replay.h"
#include "broker/sandbox.h"
#include "broker/shared.h"
#include "broker/stored.h"
#include "common/clock.h"

void
broker_tick(struct broker *b)
{
	b->now_ms = clock_ms();
}

int
broker_init(struct broker *b, int control_fd)
{
	int r = reload_start(b);

	if (r < 0)
		return r;
	TAILQ_INIT(&b->sessions);
	RB_INIT(&b->session_tree);
	RB_INIT(&b->operation_tree);
	RB_INIT(&b->workspaces);
	TAILQ_INIT(&b->clients);
	TAILQ_INIT(&b->shared);
	TAILQ_INIT(&b->providers);
	TAILQ_INIT(&b->issues);
	TAILQ_INIT(&b->revocations);
	TAILQ_INIT(&b->releases);
	STAILQ_INIT(&b->listings);
	escalations_init(&b->escalations);
	b->digest = digest_create(b->config->key);
	b->base = event_base_new();
	b->replay = replay_create();
	b->sandboxes = sandboxes_create();
	b->alarms = b->base != NULL ? alarms_create(b->base) : NULL;
	b->grants = b->digest != NULL ? grants_create(b->digest) : NULL;
	b->feeds = feeds_create(b);
	if (b->alarms == NULL || b->feeds == NULL || b->grants == NULL || b->replay == NULL ||
	    b->sandboxes == NULL)
		return -ENOMEM;
	b->next_session = 1;
	broker_tick(b);
	return control_open(b, control_fd);
}

void
broker_finish(struct broker *b)
{
	/* What is kept of sessions that go on is not dropped with them. */
	if (b->feeds != NULL)
		stored_set_link(b->feeds->stored, NULL);
	journal_destroy(b->journal);
	process_finish(b);
	sandboxes_finish(b);
	shared_finish_all(b);
	escalations_finish(&b->escalations);
	grants_finish(b);
	call_releases_finish(b);
	replay_destroy(b->replay);
	control_close(b);
	feeds_destroy(b->feeds);
	buf_finish(&b->scratch);
	buf_finish(&b->record);
	reload_finish(b);
	grants_destroy(b->grants);
	digest_destroy(b->digest);
	alarms_destroy(b->alarms);
	event_base_free(b->base);
}
