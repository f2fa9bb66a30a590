#include "client/audit_ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <event2/event.h>

#include "client/text.h"
#include "common/child.h"
#include "common/link.h"
#include "common/util.h"

#define FD_ABOVE 16 /* above every number that the child inherits */

struct audit_ledger {
	struct event_base *base;
	struct link *link; /* NULL: ended */
	pid_t pid;
	bool greeted;
	bool answered, refused;
	uint32_t msgid;
	audit_reply_fn *fn;
	void *arg;
};

/* Beside this program, as in the build tree and after `make install`. */
static char *
ledger_program(void)
{
	cleanup_free char *self = realpath("/proc/self/exe", NULL);
	static const char *const folders[] = { "libexec", "libexec/caisson" };
	char *path = NULL, *slash;
	size_t i;

	if (self == NULL)
		return NULL;
	slash = strrchr(self, '/');
	*slash = '\0';
	for (i = 0; i < countof(folders); i++) {
		if (asprintf(&path, "%s/../%s/caisson-ledger", self, folders[i]) < 0)
			return NULL;
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	return strdup(LIBEXECDIR "/caisson-ledger");
}

/* After fork: only async-signal-safe calls. */
static _Noreturn void
become_ledger(const char *path, pid_t parent, int link_fd, int journal_fd, int index_fd)
{
	char *const argv[] = { (char *)(uintptr_t) "caisson-ledger",
		(char *)(uintptr_t) "--read-only", NULL };
	char *const env[] = { NULL };
	int link = fcntl(link_fd, F_DUPFD_CLOEXEC, FD_ABOVE);
	int journal = fcntl(journal_fd, F_DUPFD_CLOEXEC, FD_ABOVE);
	int index = index_fd < 0 ? -1 : fcntl(index_fd, F_DUPFD_CLOEXEC, FD_ABOVE);
	static const char text[] = "caisson: cannot start caisson-ledger\n";
	ssize_t n;

	/* Whatever it is doing, it has nobody to do it for. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	/* The numbers are ours to fill or to leave closed, whoever started us. */
	if (index_fd < 0)
		close(LEDGER_FD_INDEX);
	if (link >= 0 && journal >= 0 && dup2(link, LEDGER_FD_CONTROL) >= 0 &&
	    dup2(journal, LEDGER_FD_JOURNAL) >= 0 &&
	    (index_fd < 0 || (index >= 0 && dup2(index, LEDGER_FD_INDEX) >= 0)) &&
	    close_range(LEDGER_FD_INDEX + 1, ~0u, 0) == 0)
		execve(path, argv, env);
	n = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)n;
	_exit(127);
}

static void
ledger_on_message(struct link *link, const struct message *m, void *arg)
{
	struct audit_ledger *l = arg;
	cleanup_free char *why = NULL;

	(void)link;
	if (m->type == MSG_hello_reply) {
		l->greeted = true;
		return;
	}
	if (m->kind != MSG_RESPONSE || m->msgid != l->msgid)
		return;
	l->answered = true;
	l->refused = m->failed;
	if (m->failed) {
		why = slice_dup(m->error.message);
		text_say("audit: %s", why ? why : "the ledger refused");
	} else {
		l->fn(l->arg, m);
	}
}

static void
ledger_on_end(
    struct link *link, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct audit_ledger *l = arg;

	(void)link;
	if (end == LINK_END_FAULT)
		text_say("audit: the ledger broke the protocol: %s", fault->rule);
	else if (end == LINK_END_ERROR)
		text_say("audit: the ledger's link failed: %s", strerror(error));
	l->link = NULL;
}

static const struct link_handler handler = {
	.on_message = ledger_on_message,
	.on_end = ledger_on_end,
};

static int
spawn(struct audit_ledger *l, const char *path, int journal_fd, int index_fd)
{
	cleanup_fd int theirs = -1;
	pid_t parent = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	theirs = pair[1];
	l->pid = fork();
	if (l->pid == 0)
		become_ledger(path, parent, theirs, journal_fd, index_fd);
	if (l->pid < 0) {
		close(pair[0]);
		return -errno;
	}
	l->link = link_open(l->base, pair[0], ROLE_CLIENT, ROLE_LEDGER, &handler, l);
	if (!l->link)
		return -errno;
	return link_hello(l->link, "caisson audit");
}

int
audit_ledger_start(int dir_fd, struct audit_ledger **ret)
{
	cleanup_fd int journal_fd = -1, index_fd = -1;
	cleanup_free char *path = ledger_program();
	struct audit_ledger *l;
	int err;

	journal_fd = openat(dir_fd, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (journal_fd < 0)
		return -errno;
	index_fd = openat(dir_fd, "index", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (index_fd < 0 && errno != ENOENT)
		return -errno;
	l = calloc(1, sizeof(*l));
	if (!l || !path) {
		free(l);
		return -ENOMEM;
	}
	l->pid = -1;
	l->base = event_base_new();
	err = l->base ? spawn(l, path, journal_fd, index_fd) : -ENOMEM;
	if (err < 0) {
		audit_ledger_end(l);
		return err;
	}
	*ret = l;
	return 0;
}

void
audit_ledger_end(struct audit_ledger *l)
{
	if (!l)
		return;
	link_close(l->link);
	while (l->link && event_base_loop(l->base, EVLOOP_ONCE) == 0)
		;
	/* Its link is gone, which is its end; it has nothing to write. */
	if (l->pid > 0) {
		kill(l->pid, SIGKILL);
		while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (l->base)
		event_base_free(l->base);
	free(l);
}

int
audit_ledger_ask(
    struct audit_ledger *l, enum msg_type type, const void *m, audit_reply_fn *fn, void *arg)
{
	while (l->link && !l->greeted)
		if (event_base_loop(l->base, EVLOOP_ONCE) != 0)
			break;
	l->answered = false;
	l->fn = fn;
	l->arg = arg;
	if (l->link && l->greeted && link_request(l->link, type, m, &l->msgid) == 0)
		while (l->link && !l->answered)
			if (event_base_loop(l->base, EVLOOP_ONCE) != 0)
				break;
	if (!l->answered)
		text_say("audit: the ledger ended without an answer");
	return l->answered && !l->refused ? 0 : -EPROTO;
}
