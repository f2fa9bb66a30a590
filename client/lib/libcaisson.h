/*
 * libcaisson: a client of a caissond, over its local socket or over the network.
 *
 *	struct caisson_client *c = caisson_client_create(&options, &error);
 *	struct caisson_sandbox *box = caisson_acquire(c, &acquire, &error);
 *	struct caisson_session *s = caisson_session_open(box, &error);
 *
 *	caisson_send(s, &operation, &error);
 *	while (caisson_receive(s, &event, -1, &error) > 0 && !event.terminal)
 *		...
 *	caisson_session_close(s);
 *	caisson_release(box, CAISSON_DRAIN, &error);
 *	caisson_sandbox_destroy(box);
 *	caisson_client_destroy(c);
 *
 * A sandbox is acquired and released; a session is a connection to it, over which one operation
 * after the other is sent and its events come, in order and each once.  Closing a session only
 * detaches: what was admitted goes on (OP-26).  Nothing is ever sent twice (OP-27): after a
 * transport failure the outcome is unknown until somebody asks, with caisson_resume() on a new
 * session, which hands out every event behind the last one seen.
 *
 * Functions that can fail take an `error`, never NULL, and fill it whenever they say so; its
 * code is one of those below, or the broker's own.  A client and what hangs from it belong to
 * one thread at a time; several clients know nothing of each other.  The library installs no
 * signal handler and writes to no standard stream.  Whoever writes to sockets in a program
 * should ignore SIGPIPE.
 *
 * Calls wait, unless they say that they do not, for at most `timeout_ms` of the options.  A
 * program with an event loop has the descriptor of a session (caisson_session_fd() and what
 * follows it), or libevent do it (caisson_session_watch()).  The lease of a session is renewed
 * by a thread of the library's own, whatever its caller is busy with.
 */
#ifndef CAISSON_CLIENT_H
#define CAISSON_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_base;

struct caisson_client;
struct caisson_sandbox;
struct caisson_session;

/*
 * Codes of the library's own:
 *   "usage"       the caller's fault: nothing was sent
 *   "transport"   the connection failed; what was asked for may have happened or not
 *   "protocol"    whoever answers does not speak as documented; the connection is closed
 * and those of the broker: "invalid_argument", "unauthenticated", "permission_denied",
 * "not_found", "already_exists", "failed_precondition", "resource_exhausted", "unavailable",
 * "deadline_exceeded", "replay_expired", "internal", ...
 */
struct caisson_error {
	char code[65];
	char message[1024]; /* for people; one line */
	bool retryable; /* the same again may succeed later; nothing was done */
};

struct caisson_options {
	/*
	 * https://HOST[:PORT], http://HOST[:PORT], http+unix:///PATH of a gateway, or the path
	 * of a daemon's local socket, where who asks is known from the kernel.
	 */
	const char *target;
	const char *namespace_name; /* of a gateway; NULL: default */
	const char *token; /* bearer token; NULL: none */
	const char *certificate, *key; /* PEM files of a client certificate; NULL: none */
	const char *authorities; /* PEM file to check the gateway by; NULL: the system's */
	int timeout_ms; /* for a connection or an answer; 0: 30 s */
};

/* Copies all of `options`, opens nothing yet but the PEM files.  NULL: "usage". */
struct caisson_client *caisson_client_create(
    const struct caisson_options *options, struct caisson_error *error);
/* Behind everything that hangs from it.  NULL is allowed, here and below. */
void caisson_client_destroy(struct caisson_client *c);
/*
 * Opens the connection that the next call needs, so that nothing has to be opened later: for
 * programs that lock themselves in.  0 or -1.
 */
int caisson_client_connect(struct caisson_client *c, struct caisson_error *error);

/* ---- sandboxes ------------------------------------------------------------------------- */

struct caisson_acquire {
	const char *runtime; /* id of a configured runtime */
	const char *idempotency_key; /* NULL: none; the same again finds the same sandbox */
	uint32_t lease_ms; /* 0: none, it lives until it is released (OP-28) */
	uint32_t timeout_ms; /* of each operation; 0: the daemon's limit (OP-8) */
	uint32_t queue; /* operations that may wait; 0: the daemon's limit */
};

/* Waits until the sandbox is ready.  NULL on failure. */
struct caisson_sandbox *caisson_acquire(struct caisson_client *c,
    const struct caisson_acquire *acquire, struct caisson_error *error);
/* One that was acquired before.  Asks nobody: a wrong id is met by what follows. */
struct caisson_sandbox *caisson_sandbox_find(struct caisson_client *c, const char *runtime,
    const char *id, struct caisson_error *error);
/* Frees what is here of it, and releases nothing. */
void caisson_sandbox_destroy(struct caisson_sandbox *s);
const char *caisson_sandbox_id(const struct caisson_sandbox *s);

enum caisson_release_mode {
	CAISSON_DRAIN, /* what was admitted is finished first */
	CAISSON_IMMEDIATE, /* it is canceled */
};
/* 0 once it is begun; with `wait`, once it is over.  Twice is no error.  -1 on failure. */
int caisson_release(struct caisson_sandbox *s, enum caisson_release_mode mode, bool wait,
    struct caisson_error *error);
/* Renews the lease (OP-28): open sessions do it by themselves.  0 or -1. */
int caisson_heartbeat(struct caisson_sandbox *s, struct caisson_error *error);

/*
 * Answers as JSON text, as the HTTP API has them; free(3) it.  NULL on failure.  `limit` 0:
 * 100; `cursor` NULL or empty: from the beginning.
 */
char *caisson_show(struct caisson_sandbox *s, struct caisson_error *error);
char *caisson_list(struct caisson_client *c, const char *runtime, uint32_t limit,
    const char *cursor, struct caisson_error *error);
char *caisson_operations(struct caisson_sandbox *s, uint32_t limit, const char *cursor,
    struct caisson_error *error);
char *caisson_operation_show(
    struct caisson_sandbox *s, const char *operation, struct caisson_error *error);
char *caisson_files(struct caisson_sandbox *s, const char *path, uint32_t limit,
    const char *cursor, struct caisson_error *error);
char *caisson_file_stat(
    struct caisson_sandbox *s, const char *path, struct caisson_error *error);
/*
 * At most `length` bytes from `offset` into `buf`.  Returns how many, fewer only at the end of
 * the file; -1 on failure.
 */
long caisson_file_read(struct caisson_sandbox *s, const char *path, uint64_t offset, void *buf,
    size_t length, struct caisson_error *error);

/* ---- sessions -------------------------------------------------------------------------- */

enum caisson_kind {
	CAISSON_TURN,
	CAISSON_COMMAND,
	CAISSON_WRITE_FILE,
	CAISSON_CREATE_DIRECTORY,
	CAISSON_DELETE_FILE,
	CAISSON_RENAME_FILE,
};

/* What is NULL, 0 or false is left out. */
struct caisson_operation {
	enum caisson_kind kind;
	const char *idempotency_key;
	const char *traceparent; /* W3C form; of a gateway only */
	uint32_t timeout_ms; /* can only shrink the limit */
	/* a turn */
	const char *message; /* JSON text */
	uint32_t max_steps, max_tool_calls;
	const char *purpose;
	/* a command: exactly one of argv, NULL-terminated, and shell (OP-11) */
	const char *const *argv;
	const char *shell;
	const char *directory; /* beneath the workspace */
	const char *const *env; /* NAME=VALUE, NULL-terminated */
	/* a file: paths beneath the workspace */
	const char *path;
	const char *to; /* of a rename */
	bool append; /* of a write */
	bool recursive; /* of a directory made or a delete */
	/* of a write the content, of a command its standard input */
	const void *content;
	size_t content_bytes;
};

enum caisson_event_type {
	CAISSON_ACCEPTED,
	CAISSON_OUTPUT,
	CAISSON_PROGRESS,
	CAISSON_COMPLETED,
	CAISSON_FAILED,
	CAISSON_GAP, /* events `from` to `to` are not retained any more */
};

/* Everything in it lives until the next call on its session. */
struct caisson_event {
	enum caisson_event_type type;
	uint64_t sequence;
	bool terminal; /* completed or failed: the last one */
	bool to_stderr; /* of output */
	const uint8_t *data; /* of output: bytes as they came */
	size_t data_bytes;
	const char *code; /* of failed */
	uint64_t from, to; /* of a gap */
	const char *json; /* all of it, one line without newline, as `caisson run -o jsonl` */
};

/* Connects (OP-20).  While it is open the lease is renewed (OP-29).  NULL on failure. */
struct caisson_session *caisson_session_open(
    struct caisson_sandbox *s, struct caisson_error *error);
/* Only the connection; again is nothing (OP-25, OP-26). */
void caisson_session_close(struct caisson_session *s);

/*
 * Submits one operation and waits until it is accepted, or refused (OP-24); while another is
 * active it is "usage" (OP-21).  Returns its id, which lives until the next one, or NULL.
 * The accepted event is the first that caisson_receive() hands out.
 */
const char *caisson_send(struct caisson_session *s, const struct caisson_operation *operation,
    struct caisson_error *error);
/* Events of an operation behind the one with sequence `after`, 0: all.  0 or -1. */
int caisson_resume(struct caisson_session *s, const char *operation, uint64_t after,
    struct caisson_error *error);
/*
 * The next event of the active operation.  Waits `timeout_ms`, -1: as long as it takes.
 * Returns 1; 0 if there was none in that time; -1 on failure, also if none is active.
 */
int caisson_receive(struct caisson_session *s, struct caisson_event *ret, int timeout_ms,
    struct caisson_error *error);
/* Asks for the end of the active operation; its terminal event follows.  Another id is "usage",
 * and nothing is sent (OP-25).  Does not wait.  0 or -1. */
int caisson_cancel(
    struct caisson_session *s, const char *operation, struct caisson_error *error);
/* Sequence of the last event that was handed out: where to resume behind. */
uint64_t caisson_last_sequence(const struct caisson_session *s);

/* ---- sessions in an event loop ----------------------------------------------------------- */

/* Does not wait.  As caisson_send(), but the id comes with the accepted event.  0 or -1. */
int caisson_send_start(struct caisson_session *s, const struct caisson_operation *operation,
    struct caisson_error *error);
/* The descriptor, until the session is closed, and what to poll(2) it for, right now. */
int caisson_session_fd(const struct caisson_session *s);
short caisson_session_poll(struct caisson_session *s);
/* Reads and writes what goes without waiting.  0 or -1: either way caisson_session_next() still
 * hands out what came before. */
int caisson_session_step(struct caisson_session *s, struct caisson_error *error);
/*
 * Once for each descriptor that was ready, until it is 0: as caisson_receive() without waiting,
 * and 2 for a refusal of what was sent last, which is in `error`; the session lives on (OP-23).
 */
int caisson_session_next(
    struct caisson_session *s, struct caisson_event *ret, struct caisson_error *error);

/*
 * Lets `base` do all that: `fn` gets each event, and with NULL in its place a refusal (`error`
 * is set, the session lives on) or the end of the connection (`lost`).  The callback may send,
 * cancel and close.  0; -1 with "usage" if memory is out or it is watched already.
 */
typedef void caisson_session_fn(struct caisson_session *s, const struct caisson_event *event,
    const struct caisson_error *error, bool lost, void *arg);
int caisson_session_watch(struct caisson_session *s, struct event_base *base,
    caisson_session_fn *fn, void *arg, struct caisson_error *error);

#ifdef __cplusplus
}
#endif

#endif /* CAISSON_CLIENT_H */
