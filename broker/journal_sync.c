#include "broker/journal_sync.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "broker/journal.h"

struct journal_sync {
	const struct journal_io *io;
	pthread_t thread;
	int event_fd;

	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t asked; /* to the thread: target, stop */
	pthread_cond_t ended; /* from the thread */
	int fd;
	uint64_t target, synced;
	bool begun, wanted, running, stop;
	int error;
};

/* What a thread that never comes back uses: it is held, not lost. */
static struct journal_sync *volatile left_behind;

static void
sync_once(struct journal_sync *s)
{
	uint64_t target = s->target;
	uint64_t one = 1;
	ssize_t n;
	int fd = s->fd;
	int ret, error;

	s->wanted = false;
	s->running = true;
	pthread_mutex_unlock(&s->lock);
	ret = s->io->sync(fd);
	error = ret < 0 ? errno : 0;
	pthread_mutex_lock(&s->lock);
	s->running = false;
	if (ret < 0)
		s->error = error ? error : EIO;
	else
		s->synced = target;
	pthread_cond_signal(&s->ended);
	/* Fails only when the counter is full, and then the loop is awake anyway. */
	n = write(s->event_fd, &one, sizeof(one));
	(void)n;
}

static void *
sync_main(void *arg)
{
	struct journal_sync *s = arg;

	pthread_mutex_lock(&s->lock);
	s->begun = true;
	pthread_cond_signal(&s->ended);
	for (;;) {
		while (!s->stop && (!s->wanted || s->error != 0))
			pthread_cond_wait(&s->asked, &s->lock);
		if (s->stop)
			break;
		sync_once(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int
start_thread(struct journal_sync *s)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	ret = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (ret != 0)
		return -ret;
	ret = pthread_create(&s->thread, NULL, sync_main, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0)
		return -ret;
	/* The caller's next filter may forbid what a thread does to begin. */
	pthread_mutex_lock(&s->lock);
	while (!s->begun)
		pthread_cond_wait(&s->ended, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

struct journal_sync *
journal_sync_create(const struct journal_io *io)
{
	pthread_condattr_t monotonic;
	struct journal_sync *s;
	int ret;

	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->io = io;
	s->fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->asked, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&s->ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = s->event_fd < 0 ? -errno : start_thread(s);
	if (ret < 0) {
		if (s->event_fd >= 0)
			close(s->event_fd);
		free(s);
		errno = -ret;
		return NULL;
	}
	return s;
}

void
journal_sync_destroy(struct journal_sync *s)
{
	bool running;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	running = s->running;
	pthread_cond_signal(&s->asked);
	pthread_mutex_unlock(&s->lock);
	if (running) {
		left_behind = s;
		return;
	}
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->asked);
	pthread_cond_destroy(&s->ended);
	pthread_mutex_destroy(&s->lock);
	close(s->event_fd);
	free(s);
}

int
journal_sync_fd(const struct journal_sync *s)
{
	return s->event_fd;
}

void
journal_sync_ask(struct journal_sync *s, int fd, uint64_t target)
{
	pthread_mutex_lock(&s->lock);
	assert(target >= s->target);
	s->fd = fd;
	s->target = target;
	s->wanted = true;
	pthread_cond_signal(&s->asked);
	pthread_mutex_unlock(&s->lock);
}

static struct journal_sync_result
result(const struct journal_sync *s)
{
	return (struct journal_sync_result){
		.synced = s->synced,
		.error = s->error,
		.idle = !s->running && (!s->wanted || s->error != 0),
	};
}

struct journal_sync_result
journal_sync_poll(struct journal_sync *s)
{
	struct journal_sync_result r;
	uint64_t count;
	ssize_t n;

	/* Before the look: a result that comes after it makes the descriptor readable again. */
	n = read(s->event_fd, &count, sizeof(count));
	(void)n;
	pthread_mutex_lock(&s->lock);
	r = result(s);
	pthread_mutex_unlock(&s->lock);
	return r;
}

void
journal_sync_next(struct journal_sync *s, uint64_t target)
{
	pthread_mutex_lock(&s->lock);
	assert(!s->running);
	s->error = 0;
	s->wanted = false;
	s->target = s->synced = target;
	pthread_mutex_unlock(&s->lock);
}

struct journal_sync_result
journal_sync_wait(struct journal_sync *s, unsigned ms)
{
	struct journal_sync_result r;
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&s->lock);
	while (r = result(s), !r.idle && ret == 0)
		ret = pthread_cond_timedwait(&s->ended, &s->lock, &until);
	pthread_mutex_unlock(&s->lock);
	return r;
}
