#include "worker/sdk/caisson.h"
#include "worker/sdk/caisson_provider.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "worker/sdk/caisson_provider_frame.h"

#define CODE_MAX    64
#define MESSAGE_MAX 4096

struct caisson_provider_private {
	struct caisson_provider_call call;
	struct caisson_provider_private *next_waiting, *next_open;
	uint32_t msgid;
	struct caisson_value id;
	bool cancelled, retryable;
	char code[CODE_MAX + 1], message[MESSAGE_MAX + 1]; /* with caisson_provider_fail() */
	uint8_t frame[];
};

/* Of the one that serves.  Threads may outlive that, so it is nobody's to free. */
static struct {
	int fd;
	const struct caisson_provider_tool *tools;
	size_t ntools;
	unsigned most, threads, idle, nwaiting;
	struct caisson_provider_private *waiting, **last_waiting, *open;
	pthread_mutex_t lock, sending;
	pthread_cond_t arrived, cancelled;
} provider = { .lock = PTHREAD_MUTEX_INITIALIZER, .sending = PTHREAD_MUTEX_INITIALIZER,
	.arrived = PTHREAD_COND_INITIALIZER };

/* ---- what a handler asks ------------------------------------------------------------- */

int
caisson_provider_fail(
    struct caisson_provider_call *call, const char *code, const char *message, bool retryable)
{
	struct caisson_provider_private *p = call->private;

	if (code[0] != '\0' && strlen(code) <= CODE_MAX && strlen(message) <= MESSAGE_MAX) {
		memcpy(p->code, code, strlen(code) + 1);
		memcpy(p->message, message, strlen(message) + 1);
		p->retryable = retryable;
	}
	return -1;
}

bool
caisson_provider_names(const struct caisson_provider_call *call, const char *argument)
{
	struct caisson_value named = caisson_get(call->arguments, argument), segment;
	struct caisson_cursor it = caisson_iterate(call->path);
	size_t n, length, have;
	const char *p = caisson_bytes(named, &n), *want;

	if (named.n > 0 && caisson_type(named) != CAISSON_STR)
		return false;
	while (n > 0) {
		for (length = 0; length < n && p[length] != '/'; length++)
			continue;
		if (length > 0) {
			if (!caisson_next(&it, &segment))
				return false;
			want = caisson_bytes(segment, &have);
			if (want == NULL || have != length || memcmp(want, p, length) != 0)
				return false;
		}
		length += length < n; /* the slash */
		p += length;
		n -= length;
	}
	return it.left == 0;
}

bool
caisson_provider_wait_cancelled(struct caisson_provider_call *call, int timeout_ms)
{
	struct timespec until;
	bool cancelled;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&provider.lock);
	while (!call->private->cancelled && timeout_ms != 0 && r == 0)
		r = timeout_ms < 0
			? pthread_cond_wait(&provider.cancelled, &provider.lock)
			: pthread_cond_timedwait(&provider.cancelled, &provider.lock, &until);
	cancelled = call->private->cancelled;
	pthread_mutex_unlock(&provider.lock);
	return cancelled;
}

bool
caisson_provider_cancelled(struct caisson_provider_call *call)
{
	return caisson_provider_wait_cancelled(call, 0);
}

/* ---- answers ------------------------------------------------------------------------- */

static int
send_frame(struct caisson_writer *w)
{
	int error = w->error;
	size_t at;
	ssize_t r;

	for (at = 0; error == 0 && at < 4; at++)
		w->p[at] = (uint8_t)((w->n - 4) >> 8 * (3 - at));
	pthread_mutex_lock(&provider.sending);
	for (at = 0; error == 0 && at < w->n;) {
		r = write(provider.fd, w->p + at, w->n - at);
		if (r >= 0)
			at += (size_t)r;
		else if (errno != EINTR)
			error = -EPIPE;
	}
	pthread_mutex_unlock(&provider.sending);
	caisson_writer_finish(w);
	return error;
}

static int
no_such_tool(struct caisson_provider_call *call, struct caisson_writer *output)
{
	(void)output;
	return caisson_provider_fail(call, "tool_unavailable", "there is no such tool", false);
}

static void
serve_call(struct caisson_provider_private *p)
{
	struct caisson_writer w = { NULL, 0, 0, 0 }, answer = w;
	caisson_provider_handler *handler = no_such_tool;
	struct caisson_value output;
	size_t i;
	int r;

	for (i = 0; i < provider.ntools; i++)
		if (caisson_is(p->call.tool, provider.tools[i].name))
			handler = provider.tools[i].handler;
	r = handler(&p->call, &w);
	if (r == 0 && w.n == 0)
		caisson_put_nil(&w);
	output = (struct caisson_value){ w.p, w.n };
	if (r == 0 && (w.error < 0 || !caisson_provider_fits(output)))
		r = caisson_provider_fail(
		    &p->call, "invalid_tool_result", "the output cannot be sent", false);
	else if (r != 0 && p->code[0] == '\0')
		caisson_provider_fail(&p->call, "tool_execution_failed", "", false);
	if (r == 0)
		caisson_provider_put_output(&answer, p->msgid, p->id, output);
	else
		caisson_provider_put_error(
		    &answer, p->msgid, p->id, p->code, p->message, p->retryable);
	send_frame(&answer); /* a broker that is gone is met by who reads */
	caisson_writer_finish(&w);
}

/* ---- threads ------------------------------------------------------------------------- */

static void
forget(struct caisson_provider_private *p)
{
	struct caisson_provider_private **at = &provider.open;

	while (*at != p)
		at = &(*at)->next_open;
	*at = p->next_open;
	free(p);
}

static void *
work(void *arg)
{
	struct caisson_provider_private *p;

	(void)arg;
	pthread_mutex_lock(&provider.lock);
	for (;;) {
		provider.idle++;
		while ((p = provider.waiting) == NULL)
			pthread_cond_wait(&provider.arrived, &provider.lock);
		provider.idle--;
		provider.nwaiting--;
		provider.waiting = p->next_waiting;
		if (provider.waiting == NULL)
			provider.last_waiting = &provider.waiting;
		pthread_mutex_unlock(&provider.lock);
		serve_call(p);
		pthread_mutex_lock(&provider.lock);
		forget(p);
	}
	return NULL;
}

/* One more that waits: for a thread that is idle, or one more of those. */
static int
start_thread(void)
{
	pthread_t thread;

	if (provider.nwaiting < provider.idle || provider.threads == provider.most)
		return 0;
	if (pthread_create(&thread, NULL, work, NULL) != 0)
		return provider.threads > 0 ? 0 : -ENOMEM;
	pthread_detach(thread);
	provider.threads++;
	return 0;
}

/* ---- what the broker says ------------------------------------------------------------ */

static struct caisson_provider_private *
find_open(struct caisson_value id)
{
	struct caisson_provider_private *p;

	for (p = provider.open; p != NULL; p = p->next_open)
		if (p->id.n == id.n && memcmp(p->id.p, id.p, id.n) == 0)
			return p;
	return NULL;
}

/* With the lock.  1: the frame is kept. */
static int
handle(struct caisson_provider_private *p, size_t n, bool *ready)
{
	struct caisson_provider_private *open;
	struct caisson_provider_frame f;
	int r = caisson_provider_parse((struct caisson_value){ p->frame, n }, &f);

	if (r < 0 || *ready == (f.said == CAISSON_PROVIDER_HELLO))
		return -EPROTO;
	*ready = true;
	if (f.said == CAISSON_PROVIDER_HELLO)
		return 0;
	open = find_open(f.id);
	if (f.said == CAISSON_PROVIDER_CANCEL) {
		if (open != NULL) /* else its answer is on its way */
			open->cancelled = true;
		pthread_cond_broadcast(&provider.cancelled);
		return 0;
	}
	r = open != NULL ? -EPROTO : start_thread();
	if (r < 0)
		return r;
	p->call = f.call;
	p->call.private = p;
	p->id = f.id;
	p->msgid = f.msgid;
	p->next_open = provider.open;
	provider.open = p;
	*provider.last_waiting = p;
	provider.last_waiting = &p->next_waiting;
	provider.nwaiting++;
	pthread_cond_signal(&provider.arrived);
	return 1;
}

/* Reads all of it; 0, or -EPIPE at the end of the link. */
static int
read_all(void *to, size_t n)
{
	size_t at = 0;
	ssize_t r;

	while (at < n) {
		r = read(provider.fd, (uint8_t *)to + at, n - at);
		if (r == 0 || (r < 0 && errno != EINTR))
			return -EPIPE;
		at += r > 0 ? (size_t)r : 0;
	}
	return 0;
}

static int
read_frame(bool *ready)
{
	struct caisson_provider_private *p;
	uint8_t length[4];
	size_t n;
	int r = read_all(length, sizeof length);

	if (r < 0)
		return r;
	n = (size_t)length[0] << 24 | (size_t)length[1] << 16 | (size_t)length[2] << 8 |
	    length[3];
	if (n == 0 || n > CAISSON_FRAME_MAX)
		return -EPROTO;
	p = calloc(1, sizeof *p + n);
	if (p == NULL)
		return -ENOMEM;
	r = read_all(p->frame, n);
	if (r == 0) {
		pthread_mutex_lock(&provider.lock);
		r = handle(p, n, ready);
		pthread_mutex_unlock(&provider.lock);
	}
	if (r <= 0)
		free(p);
	return r < 0 ? r : 0;
}

int
caisson_provider_serve(const char *name, const struct caisson_provider_tool *tools,
    size_t ntools, unsigned concurrency)
{
	const char *text = getenv("CAISSON_LINK_FD");
	struct caisson_provider_private *p;
	struct caisson_writer hello = { NULL, 0, 0, 0 };
	pthread_condattr_t monotonic;
	bool ready = false;
	int r;

	provider.fd = text != NULL ? (int)strtol(text, NULL, 10) : -1;
	if (fcntl(provider.fd, F_SETFD, FD_CLOEXEC) < 0) /* not for what a handler starts */
		return -EBADF;
	provider.tools = tools;
	provider.ntools = ntools;
	provider.most = concurrency > 0 ? concurrency : 1;
	provider.last_waiting = &provider.waiting;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&provider.cancelled, &monotonic);
	signal(SIGPIPE, SIG_IGN);
	caisson_provider_put_hello(&hello, name);
	r = send_frame(&hello);
	while (r == 0)
		r = read_frame(&ready);
	pthread_mutex_lock(&provider.lock);
	for (p = provider.open; p != NULL; p = p->next_open)
		p->cancelled = true;
	pthread_cond_broadcast(&provider.cancelled);
	pthread_mutex_unlock(&provider.lock);
	return r == -EPIPE ? 0 : r;
}
