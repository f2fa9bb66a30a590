#include "supervisor/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/children.h"
#include "supervisor/launch.h"
#include "supervisor/pack.h"
#include "supervisor/peer.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

#define LEAVE_S 2 /* behind its word */

struct check {
	struct event_base *base;
	struct event *deadline;
	struct launch *launch; /* NULL: none, or it is over */
	struct peer *peer;
	struct uid_claim uid;
	unsigned answer_ms; /* that it has for its word */
	bool answered, broken; /* its word has come; it said what nobody asked for */
	bool late; /* it had its time, and no word has come */
	struct control answer; /* a CONTROL_CONFIG_TAKEN */
	struct exit_facts exit;
	/* Why it was not born. */
	enum layer layer;
	int error;
};

/* ---- what is heard of it ----------------------------------------------------------- */

static void
kill_broker(struct check *k)
{
	if (k->launch)
		launch_kill(k->launch, ENDING_host_lost);
}

/* One that was asked one thing has one word to say. */
static void
check_on_control(const struct control *m, void *arg)
{
	static const struct timeval leave = { LEAVE_S, 0 };
	struct check *k = arg;

	if (k->answered || k->broken)
		return;
	k->answered = m->verb == CONTROL_CONFIG_TAKEN && m->error >= 0;
	k->broken = !k->answered;
	k->answer = *m;
	if (k->broken || event_add(k->deadline, &leave) < 0)
		kill_broker(k);
}

/* Its exit follows, and says why if it has not. */
static void
check_on_end(int error, void *arg)
{
	struct check *k = arg;

	if (error < 0 && !k->answered) {
		k->broken = true;
		kill_broker(k);
	}
}

static const struct peer_handler peer_handler = { check_on_control, check_on_end };

static void
check_on_started(struct launch *l, void *arg)
{
	(void)l;
	(void)arg;
}

/* Its end can be heard of before its word. */
static void
over(struct check *k)
{
	k->launch = NULL;
	peer_drain(k->peer);
	event_base_loopbreak(k->base);
}

static void
check_on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	struct check *k = arg;

	(void)l;
	(void)exit;
	k->layer = layer;
	k->error = error;
	over(k);
}

static void
check_on_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct check *k = arg;

	(void)l;
	k->exit = *exit;
	over(k);
}

static const struct launch_handler launch_handler = {
	.on_started = check_on_started,
	.on_refused = check_on_refused,
	.on_exit = check_on_exit,
};

static void
check_on_deadline(evutil_socket_t fd, short events, void *arg)
{
	struct check *k = arg;

	(void)fd;
	(void)events;
	k->late = !k->answered;
	if (k->late)
		k->error = ETIMEDOUT;
	kill_broker(k);
}

/* ---- asking it --------------------------------------------------------------------- */

/* Nothing of an installation's goes in: its key would be for digests in a record. */
static int
pack(const struct conf_namespace *c)
{
	static const uint8_t no_key[PACK_KEY];
	const struct pack_facts facts = {
		.kind = operation_kind_turn,
		.daemon = true,
		.timeout_ms = c->limits.turn_timeout,
		.now_ms = clock_wall_ms(),
		.operator_uid = geteuid(),
		.key = no_key,
	};

	return pack_sealed(c, &facts);
}

static int
claim_uid(struct check *k, struct chamber *c)
{
	static const struct uid_range range = CHILD_UID_RANGE;
	int r = uid_is_root() ? uid_claim(&range, &k->uid) : 0;

	if (r == 0 && k->uid.lock_fd >= 0)
		c->uid = c->gid = k->uid.uid;
	return r;
}

static int
start(struct check *k, const struct conf_namespace *c)
{
	static char *const argv[] = { (char *)(uintptr_t) "/libexec/caisson-broker",
		(char *)(uintptr_t) BROKER_WORD_CHECK, NULL };
	char *const env[] = {
		log_get_format() == LOG_JSON ? (char *)(uintptr_t)LOG_ENV "=json" : NULL, NULL
	};
	cleanup_fd int config = pack(c);
	cleanup_fd int theirs = -1;
	int fds[] = { -1, -1, STDERR_FILENO, -1, config }, ours, r;
	struct chamber h = {
		.profile = profile_named("broker"),
		.argv = argv,
		.env = env,
		.cwd = "/",
		.fds = fds,
		.nfds = countof(fds),
		.die_with_parent = true, /* it has nothing to settle */
	};

	k->layer = LAYER_PLAN;
	if (config < 0)
		return config;
	k->layer = LAYER_UID;
	r = claim_uid(k, &h);
	if (r < 0)
		return r;
	k->layer = LAYER_DESCRIPTORS;
	r = peer_pair(SOCK_SEQPACKET, true, true, &ours, &theirs);
	if (r < 0)
		return r;
	k->peer = peer_open(k->base, ours, &peer_handler, k);
	if (!k->peer)
		return -errno;
	fds[RUNTIME_FD_LINK] = theirs;
	return launch_start(k->base, &h, &launch_handler, k, &k->launch, &k->layer);
}

static int
ask(struct check *k, const struct conf_namespace *c)
{
	const struct timeval bound = { k->answer_ms / 1000, k->answer_ms % 1000 * 1000 };
	int r;

	k->layer = LAYER_PLAN;
	k->base = event_base_new();
	if (k->base)
		k->deadline = evtimer_new(k->base, check_on_deadline, k);
	if (!k->deadline || event_add(k->deadline, &bound) < 0)
		return -ENOMEM;
	r = start(k, c);
	if (r == 0)
		event_base_dispatch(k->base);
	return r;
}

/* ---- what came of it --------------------------------------------------------------- */

static int
unknown(char err[CONF_ERROR_MAX], const char *file, int error, const char *why)
{
	conf_refuse(err, file, (struct node_at){ 0, 0 },
	    "tools, grants and principals are unchecked: %.700s", why);
	return error < 0 ? error : -EIO;
}

static int
judge(const struct check *k, const struct conf_namespace *c, const char *file,
    char err[CONF_ERROR_MAX])
{
	char why[512], text[640];

	if (k->answered)
		return k->answer.error == 0
			   ? 0
			   : conf_refuse_row(err, file, c, (enum config_row_kind)k->answer.kind,
				     k->answer.index);
	if (k->layer != LAYER_NONE && !k->broken) {
		launch_explain(k->layer, k->error, why, sizeof(why));
		snprintf(text, sizeof(text), "cannot start the broker: %s", why);
	} else if (k->late) {
		snprintf(text, sizeof(text), "the broker has not answered within %u ms",
		    k->answer_ms);
	} else {
		snprintf(text, sizeof(text), "the broker %s (%s %d)",
		    k->broken ? "said what nobody asked it" : "ended without a word",
		    k->exit.kind == EXIT_SIGNALED ? "signal" : "status", k->exit.status);
	}
	return unknown(err, file, -k->error, text);
}

int
check_with_broker(const struct conf_namespace *c, const char *file, unsigned answer_ms,
    char err[CONF_ERROR_MAX])
{
	struct check k = { .uid = UID_CLAIM_NONE, .answer_ms = answer_ms };
	int r = ask(&k, c);

	if (r < 0)
		k.error = -r;
	r = judge(&k, c, file, err);
	peer_close(k.peer);
	uid_release(&k.uid);
	cgroup_host_finish();
	if (k.deadline)
		event_free(k.deadline);
	if (k.base)
		event_base_free(k.base);
	return r;
}
