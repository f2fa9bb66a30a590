/*
 * Runs each of its lines in a sandbox of its own, all at once, in one event loop of libevent's;
 * what they write stands behind the number of the line.
 *
 *	cc -o watch examples/client/watch.c $(pkg-config --cflags --libs caisson)
 *	./watch $XDG_RUNTIME_DIR/caisson/default.sock 'sleep 1; echo one' 'echo two'
 *	CAISSON_TOKEN=... CAISSON_CA=server.pem ./watch https://localhost:8443 date
 *
 * Acquiring, opening and releasing wait for an answer; what comes between does not.
 */
#include <libcaisson.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>

struct line {
	int number;
	struct caisson_sandbox *sandbox;
	struct caisson_session *session;
	struct caisson_error error;
	bool succeeded;
};

/* Frees what there is of it.  As nothing is watched any more, the loop can end. */
static void
finish(struct line *l)
{
	struct caisson_error error;

	caisson_session_close(l->session);
	if (l->sandbox != NULL && caisson_release(l->sandbox, CAISSON_IMMEDIATE, false, &error) < 0)
		fprintf(stderr, "%d: release: %s: %s\n", l->number, error.code, error.message);
	caisson_sandbox_destroy(l->sandbox);
	l->session = NULL;
	l->sandbox = NULL;
}

static void
on_event(struct caisson_session *s, const struct caisson_event *event,
    const struct caisson_error *error, bool lost, void *arg)
{
	struct line *l = arg;

	(void)s;
	if (event == NULL) {
		fprintf(stderr, "%d: %s: %s: %s\n", l->number, lost ? "lost" : "refused",
		    error->code, error->message);
		finish(l);
	} else if (event->type == CAISSON_OUTPUT) {
		printf("%d: %.*s", l->number, (int)event->data_bytes, (const char *)event->data);
	} else if (event->terminal) {
		l->succeeded = event->type == CAISSON_COMPLETED;
		printf("%d: %s\n", l->number, event->json);
		finish(l);
	}
}

static int
start(struct line *l, struct caisson_client *client, struct event_base *base, const char *text)
{
	struct caisson_acquire acquire = { .runtime = "shell", .lease_ms = 60000 };
	struct caisson_operation operation = { .kind = CAISSON_COMMAND, .shell = text };

	l->sandbox = caisson_acquire(client, &acquire, &l->error);
	if (l->sandbox != NULL)
		l->session = caisson_session_open(l->sandbox, &l->error);
	if (l->session == NULL)
		return -1;
	if (caisson_session_watch(l->session, base, on_event, l, &l->error) < 0)
		return -1;
	return caisson_send_start(l->session, &operation, &l->error);
}

int
main(int argc, char **argv)
{
	struct caisson_options options = { .target = argv[1],
		.token = getenv("CAISSON_TOKEN"),
		.authorities = getenv("CAISSON_CA") };
	struct caisson_error error;
	struct caisson_client *client;
	struct event_base *base = event_base_new();
	struct line *lines = calloc((size_t)argc, sizeof *lines);
	int i, failed = 0;

	if (argc < 3 || base == NULL || lines == NULL) {
		fprintf(stderr, "watch: needs URL or SOCKET, and LINEs\n");
		return 125;
	}
	signal(SIGPIPE, SIG_IGN);
	client = caisson_client_create(&options, &error);
	if (client == NULL) {
		fprintf(stderr, "watch: %s: %s\n", error.code, error.message);
		return 125;
	}
	for (i = 2; i < argc; i++) {
		lines[i].number = i - 1;
		if (start(&lines[i], client, base, argv[i]) < 0) {
			fprintf(stderr, "%d: %s: %s\n", i - 1, lines[i].error.code,
			    lines[i].error.message);
			finish(&lines[i]);
		}
	}
	event_base_dispatch(base); /* until nothing is watched */
	for (i = 2; i < argc; i++)
		failed += !lines[i].succeeded;
	free(lines);
	caisson_client_destroy(client);
	event_base_free(base);
	return failed > 0;
}
