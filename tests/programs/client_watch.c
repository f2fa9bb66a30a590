/*
 * client_watch SOCKET SESSION: a program with an event loop of its own that lets libcaisson watch
 * a session.  Sends an operation, once more after its refusal, and says what it is told.
 */
#include <stdio.h>

#include <event2/event.h>

#include "client/lib/libcaisson.h"

static const struct caisson_operation operation = { .kind = CAISSON_COMMAND, .shell = "x" };
static struct event_base *base;

static void
on_told(struct caisson_session *s, const struct caisson_event *event,
    const struct caisson_error *error, bool lost, void *arg)
{
	struct caisson_error second;

	(void)arg;
	if (event != NULL) {
		printf("event %llu\n", (unsigned long long)event->sequence);
		return;
	}
	printf("%s %s\n", lost ? "lost" : "refused", error->code);
	if (lost) {
		caisson_session_close(s); /* below its own callback */
		event_base_loopbreak(base);
		return;
	}
	caisson_send_start(s, &operation, &second);
	if (caisson_send_start(s, &operation, &second) < 0)
		printf("second %s\n", second.code);
}

int
main(int argc, char **argv)
{
	struct caisson_options options = { .target = argc > 2 ? argv[1] : NULL };
	struct caisson_error error;
	struct caisson_client *client = caisson_client_create(&options, &error);
	struct caisson_sandbox *box = NULL;
	struct caisson_session *session = NULL;

	base = event_base_new();
	if (client != NULL)
		box = caisson_sandbox_find(client, "shell", argv[2], &error);
	if (box != NULL)
		session = caisson_session_open(box, &error);
	if (session == NULL || caisson_send_start(session, &operation, &error) < 0 ||
	    caisson_session_watch(session, base, on_told, NULL, &error) < 0) {
		fprintf(stderr, "%s: %s\n", error.code, error.message);
		return 1;
	}
	event_base_dispatch(base);
	caisson_sandbox_destroy(box);
	caisson_client_destroy(client);
	event_base_free(base);
	return 0;
}
