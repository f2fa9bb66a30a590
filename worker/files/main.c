/*
 * caisson-files ROOT: the built-in `files` provider.  One per session, in a chamber in
 * which ROOT is the one directory of the operator's.  Descriptor 3 is its link to the
 * broker, whose calls it serves in turn; it ends with the link.
 *
 * caisson-files --workspace ROOT: likewise, what clients do to the workspace ROOT of theirs.
 * caisson-files --empty ROOT: no link; removes all that is in ROOT, and ends: 0, or 1 if some of
 * it stays.
 *
 * It opens ROOT once, before it reads a byte, and then gives up every system call that
 * its tools do not need.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/link.h"
#include "common/log.h"
#include "common/sanitizer.h"
#include "worker/files/confine.h"
#include "worker/files/digest.h"
#include "worker/files/empty.h"
#include "worker/files/files.h"
#include "worker/files/workspace.h"

#define NAME	    "caisson-files"
#define QUEUE_HIGH  (2u << 20) /* bytes of replies unread; no further call is begun */
#define QUEUE_LOW   (256u << 10)

SANITIZER_DEFAULTS

struct provider {
	struct event_base *base;
	struct link *link;
	struct files_root root;
	bool workspace;
	int status; /* of the process */
};

static void
send_failure(struct provider *p, uint32_t msgid, const struct msg_tool_call *call,
    enum files_code code, const char *field)
{
	char text[160];
	struct msg_tool_call_reply reply = { .callId = call->call, .status = call_status_failed };

	snprintf(text, sizeof(text), "%s: %s", field != NULL ? field : "arguments",
	    files_code_text(code));
	reply.has_error = true;
	reply.error.code =
	    slice_of(p->workspace ? files_code_canonical(code) : files_code_name(code));
	reply.error.message = slice_of(text);
	reply.error.retryable = files_code_retryable(code);
	link_reply(p->link, MSG_tool_call_reply, msgid, &reply);
}

static void
handle_tool_call(struct provider *p, uint32_t msgid, const struct msg_tool_call *call)
{
	struct msg_tool_call_reply reply = { .callId = call->call,
		.status = call_status_succeeded };
	struct files_reply result = { .field = NULL };
	enum files_code code;
	int e;

	code = (p->workspace ? workspace_serve : files_serve)(
	    &p->root, call->tool, call->arguments, call->path, &result);
	if (code != FILES_OK) {
		send_failure(p, msgid, call, code, result.field);
		return;
	}
	reply.has_output = true;
	reply.output = (struct slice){ result.out.p, result.out.n };
	e = link_reply(p->link, MSG_tool_call_reply, msgid, &reply);
	buf_finish(&result.out);
	/* What was done is done; that it cannot be told is an answer too. */
	if (e == -ERANGE || e == -ENOMEM)
		send_failure(p, msgid, call, FILES_io, "result");
	if (link_queued(p->link) > QUEUE_HIGH) {
		link_pause(p->link);
		link_watch(p->link, QUEUE_LOW);
	}
}

static void
on_message(struct link *l, const struct message *m, void *arg)
{
	struct provider *p = arg;

	(void)l;
	/* tool.cancel comes too late for a call: each is answered before the next is read. */
	if (m->type == MSG_tool_call)
		handle_tool_call(p, m->msgid, &m->u.tool_call);
}

static void
on_drained(struct link *l, void *arg)
{
	(void)arg;
	link_resume(l);
}

static void
on_end(struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct provider *p = arg;

	(void)l;
	if (end == LINK_END_FAULT)
		log_error("the broker broke the protocol: %s", fault->rule);
	else if (end == LINK_END_ERROR)
		log_error("cannot use the link: %s", strerror(error < 0 ? -error : error));
	else if (end == LINK_END_SLOW)
		log_error("the broker does not read");
	p->status = end == LINK_END_EOF || end == LINK_END_CLOSED ? 0 : 1;
	p->link = NULL;
	event_base_loopbreak(p->base);
}

static const struct link_handler handler = {
	.on_message = on_message,
	.on_end = on_end,
	.on_drained = on_drained,
};

static void
open_root(struct provider *p, const char *path)
{
	int e;

	/* Both are errors that a write returns; neither is a reason to end. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	umask(077);
	if ((e = files_root_open(path, &p->root)) < 0)
		fatal("cannot open the root: %s", strerror(-e));
}

/* A command may have closed its workspace to itself, and to us. */
static void
unlock_root(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && (st.st_mode & 0700) != 0700 &&
	    chmod(path, (st.st_mode & 0777) | 0700) < 0)
		fatal("cannot open the root to us: %s", strerror(errno));
}

static int
empty(struct provider *p, const char *path)
{
	int e;

	unlock_root(path);
	open_root(p, path);
	if ((e = files_confine()) < 0)
		fatal("cannot load the system call filter: %s", strerror(-e));
	if ((e = empty_directory(p->root.fd)) < 0)
		log_error("something stays in the workspace: %s", strerror(-e));
	return e < 0 ? 1 : 0;
}

static void
start(struct provider *p, const char *path)
{
	int e;

	if (p->workspace)
		unlock_root(path);
	open_root(p, path);
	if (digest_init() < 0)
		fatal("cannot set up SHA-256");
	p->base = event_base_new();
	if (p->base == NULL)
		fatal("cannot make an event loop");
	p->link = link_open(p->base, RUNTIME_FD_LINK, ROLE_PROVIDER, ROLE_BROKER, &handler, p);
	if (p->link == NULL)
		fatal("cannot use the link: %s", strerror(errno));
	if ((e = files_confine()) < 0)
		fatal("cannot load the system call filter: %s", strerror(-e));
	if ((e = link_hello(p->link, NAME)) < 0)
		fatal("cannot greet the broker: %s", strerror(-e));
}

int
main(int argc, char **argv)
{
	struct provider p = { .status = 1 };

	log_init(NAME, LOG_INFO_);
	p.workspace = argc == 3 && strcmp(argv[1], "--workspace") == 0;
	if (argc == 3 && strcmp(argv[1], "--empty") == 0)
		return empty(&p, argv[2]);
	if (argc != 2 && !p.workspace)
		fatal("usage: caisson-files [--workspace | --empty] ROOT");
	start(&p, argv[argc - 1]);
	event_base_dispatch(p.base);
	files_root_close(&p.root);
	event_base_free(p.base);
	return p.status;
}
