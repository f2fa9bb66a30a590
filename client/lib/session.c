#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/lib/internal.h"
#include "client/lib/session.h"
#include "common/clock.h"
#include "common/util.h"

/*
 * A session's connection.  Its lease is renewed by a thread of its own, so that a caller who is
 * busy elsewhere does not lose it: the thread only ever queues a frame and writes, under the
 * lock that every function here holds but while it waits.
 */

#define HEARTBEAT_MIN_MS 100 /* OP-29 */
#define HEARTBEAT_MAX_MS 30000

uint32_t
heartbeat_ms(uint32_t lease_ms)
{
	uint32_t ms = lease_ms / 3;

	return ms < HEARTBEAT_MIN_MS ? HEARTBEAT_MIN_MS
	    : ms > HEARTBEAT_MAX_MS  ? HEARTBEAT_MAX_MS
				     : ms;
}

/* ---- the lease --------------------------------------------------------------------------- */

static void
heartbeat(struct caisson_session *s)
{
	struct caisson_error error;

	if (s->wire->ops->heartbeat(s->wire, s->sandbox->id, &error) == 0 &&
	    channel_step_write(s->wire->ch, &error) == 0)
		return;
	/* OP-29: whoever waits is woken by the end of the connection. */
	s->lost = true;
	shutdown(s->wire->ch->fd, SHUT_RDWR);
}

static void *
renew(void *arg)
{
	struct caisson_session *s = arg;
	uint32_t every_ms = heartbeat_ms(s->sandbox->lease_ms);
	struct timespec at;

	pthread_mutex_lock(&s->lock);
	s->started = true;
	pthread_cond_signal(&s->wake);
	clock_gettime(CLOCK_MONOTONIC, &at);
	while (!s->closing && !s->lost) {
		at.tv_nsec += (long)(every_ms % 1000) * 1000000;
		at.tv_sec += every_ms / 1000 + at.tv_nsec / 1000000000;
		at.tv_nsec %= 1000000000;
		while (!s->closing && pthread_cond_timedwait(&s->wake, &s->lock, &at) == 0)
			;
		if (!s->closing && !s->lost)
			heartbeat(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int
start_renewing(struct caisson_session *s, struct caisson_error *error)
{
	sigset_t all, before;
	int r;

	if (s->sandbox->lease_ms == 0)
		return 0;
	sigfillset(&all); /* signals are the program's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&s->thread, NULL, renew, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0)
		return error_set(error, "usage", "no thread for heartbeats: %s", strerror(r));
	s->renewing = true;
	/* A thread that begins makes calls of its own, and dies without: who locks itself in
	 * behind this would end it. */
	pthread_mutex_lock(&s->lock);
	while (!s->started)
		pthread_cond_wait(&s->wake, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

/* ---- its life ---------------------------------------------------------------------------- */

static int
learn_lease(struct caisson_sandbox *box, struct caisson_error *error)
{
	cleanup_free char *text = NULL;

	if (box->lease_known)
		return 0;
	text = caisson_show(box, error);
	if (text == NULL)
		return -1;
	box->lease_ms = (uint32_t)answer_number(text, "leaseMs");
	box->lease_known = true;
	return 0;
}

struct caisson_session *
caisson_session_open(struct caisson_sandbox *box, struct caisson_error *error)
{
	struct caisson_session *s;
	pthread_condattr_t monotonic;

	if (learn_lease(box, error) < 0)
		return NULL;
	s = calloc(1, sizeof *s);
	if (s == NULL) {
		error_set(error, "usage", "out of memory");
		return NULL;
	}
	s->sandbox = box;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	s->wire = wire_open(box->client, box->runtime, box->id, error);
	if (s->wire == NULL || start_renewing(s, error) < 0) {
		caisson_session_close(s);
		return NULL;
	}
	return s;
}

void
caisson_session_close(struct caisson_session *s)
{
	if (s == NULL)
		return;
	session_unwatch(s);
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (s->renewing)
		pthread_join(s->thread, NULL);
	if (s->wire != NULL && s->wire->upgraded && !s->lost) {
		struct caisson_error ignored;

		wire_frame(&s->wire->ch->out, WSHEAD_CLOSE, "\x03\xe8", 2); /* 1000: done */
		channel_step_write(s->wire->ch, &ignored);
	}
	wire_close(s->wire);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	buf_finish(&s->json);
	buf_finish(&s->code);
	free(s);
}

/* ---- what comes -------------------------------------------------------------------------- */

/* In order, each once, and those that are missing named: whoever says otherwise is not believed,
 * for what is resumed behind it would leave a hole (OP-40). */
static bool
is_next(const struct caisson_session *s, const struct msg_operation_event *e)
{
	uint64_t first = e->sequence;
	struct value from, to;

	if (e->type == event_type_gap) {
		if (!e->has_body || !value_get(e->body, "from", &from) || from.type != VALUE_UINT ||
		    !value_get(e->body, "to", &to) || to.type != VALUE_UINT ||
		    to.uint != e->sequence || from.uint > to.uint)
			return false;
		first = from.uint;
	}
	return s->active && s->last != UINT64_MAX && first == s->last + 1;
}

static void
note(struct caisson_session *s, const struct msg_operation_event *e)
{
	struct value id;

	s->last = e->sequence;
	if (e->type == event_type_accepted && e->has_body &&
	    value_get(e->body, "operationID", &id) && id.type == VALUE_STR)
		snprintf(s->operation, sizeof s->operation, "%.*s", (int)id.bytes.n,
		    (const char *)id.bytes.p);
	if (e->type == event_type_completed || e->type == event_type_failed)
		s->active = false;
}

/* Under the lock: 1, 0, -1, 2 as session_next(). */
static int
next_locked(
    struct caisson_session *s, struct msg_operation_event *ret, struct caisson_error *error)
{
	struct incoming in;
	int r;

	if (s->held) { /* the accepted event that caisson_send() has waited for */
		s->held = false;
		*ret = s->accepted;
		note(s, ret);
		return 1;
	}
	if (s->broken)
		return error_set(error, "transport", "the connection is lost");
	r = s->wire->ops->next(s->wire, &in, error);
	if (r < 0) {
		s->lost = s->broken = true;
		return -1;
	}
	if (r == 0)
		return s->lost ? error_set(error, "transport", "the connection was closed") : 0;
	if (in.refused) {
		*error = in.refusal;
		s->active = false;
		return 2;
	}
	if (!is_next(s, &in.event)) {
		s->lost = s->broken = true;
		return error_set(error, "protocol", "an event out of order, or of no operation");
	}
	*ret = in.event;
	note(s, ret);
	return 1;
}

int
session_next(
    struct caisson_session *s, struct msg_operation_event *ret, struct caisson_error *error)
{
	int r;

	pthread_mutex_lock(&s->lock);
	r = next_locked(s, ret, error);
	pthread_mutex_unlock(&s->lock);
	return r;
}

int
caisson_session_step(struct caisson_session *s, struct caisson_error *error)
{
	int r;

	if (s->held) /* what it names lies where the next bytes would */
		return 0;
	pthread_mutex_lock(&s->lock);
	r = s->lost ? error_set(error, "transport", "the connection is lost")
		    : channel_step(s->wire->ch, error);
	s->lost |= r < 0 || s->wire->ch->ended;
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* The lease's thread may write meanwhile: only the descriptor is waited for without the
 * lock. */
static int
wait_more(struct caisson_session *s, uint64_t at_ms, struct caisson_error *error)
{
	bool pending;
	short events;

	pthread_mutex_lock(&s->lock);
	pending = channel_is_pending(s->wire->ch);
	events = channel_poll(s->wire->ch);
	pthread_mutex_unlock(&s->lock);
	return pending ? 1 : channel_wait_for(s->wire->ch->fd, events, at_ms, error);
}

/* As session_next(), but waits until `at_ms` (0: for ever). */
static int
wait_next(struct caisson_session *s, uint64_t at_ms, struct msg_operation_event *ret,
    struct caisson_error *error)
{
	int r;

	for (;;) {
		r = session_next(s, ret, error);
		if (r != 0)
			return r;
		caisson_session_step(s, error); /* what came before a failure is told first */
		r = session_next(s, ret, error);
		if (r != 0)
			return r;
		r = wait_more(s, at_ms, error);
		if (r <= 0)
			return r;
	}
}

int
caisson_session_next(
    struct caisson_session *s, struct caisson_event *ret, struct caisson_error *error)
{
	struct msg_operation_event e;
	int r = session_next(s, &e, error);

	return r == 1 && event_show(&e, &s->json, &s->code, ret, error) < 0 ? -1 : r;
}

int
caisson_receive(struct caisson_session *s, struct caisson_event *ret, int timeout_ms,
    struct caisson_error *error)
{
	struct msg_operation_event e;
	int r;

	if (!s->active && !s->held)
		return error_set(error, "usage", "no operation is active on this session");
	r = wait_next(s, timeout_ms < 0 ? 0 : clock_ms() + (unsigned)timeout_ms, &e, error);
	if (r == 2)
		return -1;
	return r == 1 && event_show(&e, &s->json, &s->code, ret, error) < 0 ? -1 : r;
}

/* ---- what is said ------------------------------------------------------------------------ */

static int
check_operation(const struct caisson_operation *op, struct caisson_error *error)
{
	bool command = op->kind == CAISSON_COMMAND;

	if (check_key(op->idempotency_key, error) < 0)
		return -1;
	if (command && (op->argv != NULL) == (op->shell != NULL))
		return error_set(error, "usage", "a command has either argv or shell");
	if (op->kind >= CAISSON_WRITE_FILE && op->path == NULL)
		return error_set(error, "usage", "a file operation names a path");
	if (op->kind == CAISSON_RENAME_FILE && op->to == NULL)
		return error_set(error, "usage", "a rename says where to");
	for (size_t i = 0; op->env != NULL && op->env[i] != NULL; i++)
		if (strchr(op->env[i], '=') == NULL || op->env[i][0] == '=')
			return error_set(error, "usage", "env: %s is not NAME=VALUE", op->env[i]);
	return 0;
}

/* Under the lock: what was queued goes out as far as it does. */
static int
flush(struct caisson_session *s, int r, struct caisson_error *error)
{
	if (r == 0 && channel_step_write(s->wire->ch, error) < 0) {
		s->lost = true;
		r = -1;
	}
	return r;
}

int
caisson_send_start(struct caisson_session *s, const struct caisson_operation *operation,
    struct caisson_error *error)
{
	int r;

	if (check_operation(operation, error) < 0)
		return -1;
	if (s->active)
		return error_set(error, "usage", "an operation is active: one at a time (OP-21)");
	pthread_mutex_lock(&s->lock);
	r = s->lost ? error_set(error, "transport", "the connection is lost")
		    : s->wire->ops->send(s->wire, s->sandbox->id, operation, error);
	if (r == 0) {
		s->active = true;
		s->held = false;
		s->last = 0;
		s->operation[0] = '\0';
	}
	r = flush(s, r, error);
	pthread_mutex_unlock(&s->lock);
	return r;
}

const char *
caisson_send(struct caisson_session *s, const struct caisson_operation *operation,
    struct caisson_error *error)
{
	uint64_t at_ms = clock_ms() + s->sandbox->client->timeout_ms;
	int r;

	if (caisson_send_start(s, operation, error) < 0)
		return NULL;
	r = wait_next(s, at_ms, &s->accepted, error);
	if (r == 1) {
		/* Its slices live until the next call, and that hands it out. */
		s->held = true;
		return s->operation;
	}
	if (r == 0) {
		s->lost = true;
		error_set(error, "transport", "not accepted in time; it may have been");
	}
	return NULL;
}

int
caisson_resume(struct caisson_session *s, const char *operation, uint64_t after,
    struct caisson_error *error)
{
	int r;

	if (s->active)
		return error_set(error, "usage", "an operation is active: one at a time (OP-21)");
	if (strlen(operation) >= sizeof s->operation)
		return error_set(error, "usage", "%.80s is no id of an operation", operation);
	pthread_mutex_lock(&s->lock);
	r = s->lost ? error_set(error, "transport", "the connection is lost")
		    : s->wire->ops->resume(s->wire, operation, after, error);
	if (r == 0) {
		s->active = true;
		s->held = false;
		s->last = after;
		snprintf(s->operation, sizeof s->operation, "%s", operation);
	}
	r = flush(s, r, error);
	pthread_mutex_unlock(&s->lock);
	return r;
}

int
caisson_cancel(struct caisson_session *s, const char *operation, struct caisson_error *error)
{
	int r;

	if (!s->active || strcmp(s->operation, operation) != 0)
		return error_set(error, "usage", "%.80s is not active on this session (OP-25)", operation);
	pthread_mutex_lock(&s->lock);
	r = s->lost ? error_set(error, "transport", "the connection is lost")
		    : s->wire->ops->cancel(s->wire, operation, error);
	r = flush(s, r, error);
	pthread_mutex_unlock(&s->lock);
	return r;
}

uint64_t
caisson_last_sequence(const struct caisson_session *s)
{
	return s->last;
}

int
caisson_session_fd(const struct caisson_session *s)
{
	return s->wire->ch->fd;
}

short
caisson_session_poll(struct caisson_session *s)
{
	short events;

	pthread_mutex_lock(&s->lock);
	events = channel_poll(s->wire->ch);
	pthread_mutex_unlock(&s->lock);
	return events;
}
