#include "worker/sdk/caisson_decision.h"

#include <pthread.h>
#include <time.h>

/* ---- the loop ------------------------------------------------------------------------ */

/* A writer to read from. */
static struct caisson_writer
borrowed(struct caisson_value v)
{
	return (struct caisson_writer){ (uint8_t *)(uintptr_t)v.p, v.n, 0, 0 };
}

struct loop {
	struct caisson *c;
	const struct caisson_turn *turn;
	const struct caisson_driver *driver;
	struct caisson_writer given, decision, error;
	struct caisson_plan plan; /* the outcome, once there is one */
};

static void
plan_failure(struct loop *l, const char *code, const char *message, bool retryable)
{
	caisson_writer_finish(&l->error);
	caisson_put_map(&l->error, 3);
	caisson_put_text(&l->error, "code", code);
	caisson_put_text(&l->error, "message", message);
	caisson_put_str(&l->error, "retryable");
	caisson_put_bool(&l->error, retryable);
	l->plan = (struct caisson_plan){
		.kind = CAISSON_FAIL,
		.status = "fail",
		.closed = "failed",
		.value = { l->error.p, l->error.n },
	};
}

static void
plan_cancelled(struct loop *l)
{
	plan_failure(l, "turn_cancelled", "the turn is over, or its time was up", false);
	l->plan.closed = "cancelled";
}

/* Is the call of the plan that of the tool that asks, where it is offered? */
static bool
is_ask(const struct loop *l)
{
	struct caisson_cursor it = caisson_iterate(l->turn->tools);
	struct caisson_value tool;

	while (caisson_next(&it, &tool))
		if (caisson_is(caisson_get(tool, "name"), CAISSON_ASK_TOOL))
			return caisson_is(l->plan.tool, CAISSON_ASK_TOOL);
	return false;
}

/* The ask itself is with the broker; this says that the turn has ended with it. */
static void
plan_asked(struct loop *l)
{
	static const char asked[] = "\xa5"
				    "asked";

	l->plan = (struct caisson_plan){ .kind = CAISSON_ESCALATE,
		.status = "escalate",
		.closed = "escalated",
		.value = { (const uint8_t *)asked, sizeof asked - 1 } };
}

static void
give_result(struct caisson_writer *w, struct caisson_value tool, const struct caisson_result *r)
{
	static const char *const status[] = { "succeeded", "denied", "failed" };

	caisson_writer_finish(w);
	caisson_put_map(w, 2);
	caisson_put_text(w, "type", "tool_result");
	caisson_put_str(w, "result");
	caisson_put_map(w, 3);
	caisson_put_str(w, "tool");
	caisson_put_value(w, tool);
	caisson_put_text(w, "status", status[r->status]);
	if (r->status == CAISSON_SUCCEEDED) {
		caisson_put_str(w, "output");
		if (r->output.n == 0)
			caisson_put_nil(w);
		caisson_put_value(w, r->output);
		return;
	}
	caisson_put_str(w, "error");
	caisson_put_map(w, r->details.n > 0 ? 4 : 3);
	caisson_put_str(w, "code");
	caisson_put_value(w, r->code);
	caisson_put_str(w, "message");
	caisson_put_value(w, r->message);
	caisson_put_str(w, "retryable");
	caisson_put_bool(w, r->retryable);
	if (r->details.n > 0) {
		caisson_put_str(w, "details");
		caisson_put_value(w, r->details);
	}
}

/* Makes the call of the plan; what came of it is given to the driver next.  1: it was an
 * ask. */
static int
make_call(struct loop *l)
{
	struct caisson_writer step = { NULL, 0, 0, 0 };
	struct caisson_writer arguments = borrowed(l->plan.arguments);
	struct caisson_option options[] = { { "step", { NULL, 0 } },
		{ "idempotencyKey", l->plan.key } };
	struct caisson_result r;
	char name[257] = "";
	uint32_t call;
	size_t n;
	const char *tool = caisson_bytes(l->plan.tool, &n);
	int error;

	memcpy(name, tool, n);
	caisson_put_uint(&step, l->plan.step);
	options[0].value = (struct caisson_value){ step.p, step.n };
	error = step.error;
	if (error == 0)
		error = caisson_start_with(l->c, CAISSON_INVOKE, name, &arguments, options,
		    l->plan.key.n > 0 ? 2 : 1, &call);
	if (error == 0)
		error = caisson_call_wait(l->c, call, &r);
	caisson_writer_finish(&step);
	if (error < 0)
		return error;
	if (r.status == CAISSON_SUCCEEDED && is_ask(l))
		plan_asked(l);
	else
		give_result(&l->given, l->plan.tool, &r);
	caisson_result_finish(&r);
	return l->plan.kind == CAISSON_ESCALATE ? 1 : l->given.error;
}

/* One decision and what follows from it.  1: the turn has its outcome, 0: it goes on. */
static int
take_step(struct loop *l, uint32_t at)
{
	int error;

	caisson_writer_finish(&l->decision);
	error = l->driver->decide(l->driver->data, l->c,
	    (struct caisson_value){ l->given.p, l->given.n }, &l->decision);
	if (caisson_state(l->c) & CAISSON_CANCELLED)
		return -ECANCELED;
	if (error < 0 || l->decision.error < 0) {
		plan_failure(l, "driver_failed", "the driver failed", true);
		return 1;
	}
	if (!caisson_decision_read(
		(struct caisson_value){ l->decision.p, l->decision.n }, at, &l->plan)) {
		plan_failure(l, "invalid_driver_decision", "that is no decision", false);
		return 1;
	}
	if (l->plan.kind != CAISSON_INVOKE)
		return 1;
	return make_call(l);
}

/* Until the turn has its outcome; an error of the link, or -ECANCELED. */
static int
take_steps(struct loop *l)
{
	uint32_t at;
	int r;

	caisson_put_map(&l->given, 1);
	caisson_put_text(&l->given, "type", "start");
	if (l->given.error < 0)
		return l->given.error;
	for (at = 0; at < l->turn->max_steps && caisson_state(l->c) == 0; at++) {
		r = take_step(l, at);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (caisson_state(l->c) != 0)
		return -ECANCELED;
	plan_failure(l, "step_limit_exceeded", "the loop has used its steps", false);
	return 0;
}

/* ---- the close of a driver ----------------------------------------------------------- */

/* Belongs to both threads; the last one frees it. */
struct closing {
	pthread_mutex_t lock;
	pthread_cond_t done_or_left;
	bool done, left;
	struct caisson_driver driver;
	const char *status;
};

static void
closing_destroy(struct closing *k)
{
	pthread_cond_destroy(&k->done_or_left);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

static void *
close_work(void *arg)
{
	struct closing *k = arg;
	bool left;

	k->driver.close(k->driver.data, k->status);
	pthread_mutex_lock(&k->lock);
	k->done = true;
	left = k->left;
	pthread_cond_signal(&k->done_or_left);
	pthread_mutex_unlock(&k->lock);
	if (left)
		closing_destroy(k);
	return NULL;
}

static uint64_t
now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void
close_driver(const struct caisson_driver *driver, const char *status, uint64_t until_ms)
{
	struct timespec until = { (time_t)(until_ms / 1000),
		(long)(until_ms % 1000) * 1000000 };
	struct closing *k = calloc(1, sizeof *k);
	pthread_condattr_t monotonic;
	pthread_t thread;
	bool done;

	if (k == NULL)
		return;
	k->driver = *driver;
	k->status = status;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->done_or_left, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (pthread_create(&thread, NULL, close_work, k) != 0) {
		closing_destroy(k);
		return;
	}
	pthread_detach(thread);
	pthread_mutex_lock(&k->lock);
	while (
	    !k->done && pthread_cond_timedwait(&k->done_or_left, &k->lock, &until) != ETIMEDOUT)
		continue;
	done = k->done;
	k->left = true;
	pthread_mutex_unlock(&k->lock);
	if (done)
		closing_destroy(k);
}

/* ---- turns --------------------------------------------------------------------------- */

/* Until when the driver may close: to close must not cost an outcome that counts. */
static uint64_t
close_until_ms(struct loop *l, uint64_t deadline_at_ms)
{
	unsigned most = l->driver->close_ms > 0 ? l->driver->close_ms : CAISSON_CLOSE_MS;
	uint64_t now = now_ms(), left = deadline_at_ms > now ? (deadline_at_ms - now) / 2 : 0;

	return now + (caisson_state(l->c) & CAISSON_CANCELLED || left > most ? most : left);
}

static int
send_outcome(struct loop *l)
{
	struct caisson_writer value = borrowed(l->plan.value);
	struct caisson_option metadata = { "metadata", l->plan.metadata };
	uint32_t none;

	if (l->error.error < 0)
		return l->error.error;
	return caisson_start_with(
	    l->c, l->plan.kind, l->plan.status, &value, &metadata, metadata.value.n > 0, &none);
}

int
caisson_loop_turn(
    struct caisson *c, const struct caisson_turn *turn, const struct caisson_driver *driver)
{
	struct loop l = { .c = c, .turn = turn, .driver = driver };
	uint64_t deadline_at_ms = now_ms() + turn->timeout_ms;
	bool opened = driver->open == NULL || driver->open(driver->data, c, turn) >= 0;
	int error = 0;

	if (opened)
		error = take_steps(&l);
	else
		plan_failure(&l, "driver_failed", "the driver failed", true);
	if (error < 0 || caisson_state(c) & CAISSON_CANCELLED)
		plan_cancelled(&l);
	if (opened && driver->close != NULL)
		close_driver(driver, l.plan.closed, close_until_ms(&l, deadline_at_ms));
	if (error == 0 || error == -ECANCELED)
		error = send_outcome(&l);
	caisson_writer_finish(&l.given);
	caisson_writer_finish(&l.decision);
	caisson_writer_finish(&l.error);
	return error;
}

int
caisson_loop_serve(const struct caisson_driver *driver)
{
	struct caisson_turn turn;
	struct caisson *c;
	int error = caisson_open(&c);

	if (error < 0)
		return error;
	while ((error = caisson_next_turn(c, &turn)) == 0 &&
	       (error = caisson_loop_turn(c, &turn, driver)) == 0)
		continue;
	caisson_close(c);
	return error == -EPIPE ? 0 : error;
}
