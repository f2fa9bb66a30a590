/*
 * Runs a shell line in a sandbox, with its output as it comes, and ends as the line did.
 *
 *	cc -o run examples/client/run.c $(pkg-config --cflags --libs caisson)
 *	./run $XDG_RUNTIME_DIR/caisson/default.sock 'uname -a'
 *	CAISSON_TOKEN=... CAISSON_CA=server.pem ./run https://localhost:8443 'seq 3; exit 4'
 *
 * watch.c does the same in an event loop.
 */
#include <libcaisson.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The status of a shell, from the JSON of the last event; a program has a parser for that. */
static int
status_of(const struct caisson_event *last)
{
	const char *code = strstr(last->json, "\"exitCode\":");

	if (last->type == CAISSON_FAILED)
		fprintf(stderr, "run: %s\n", last->json);
	return code != NULL ? (int)strtol(code + strlen("\"exitCode\":"), NULL, 10) : 1;
}

/* The exit status, or -1 with `error`. */
static int
run(struct caisson_session *s, const char *line, struct caisson_error *error)
{
	struct caisson_operation operation = { .kind = CAISSON_COMMAND, .shell = line };
	struct caisson_event event;

	if (caisson_send(s, &operation, error) == NULL)
		return -1;
	for (;;) {
		if (caisson_receive(s, &event, -1, error) < 0)
			return -1;
		if (event.type == CAISSON_OUTPUT)
			fwrite(event.data, 1, event.data_bytes, event.to_stderr ? stderr : stdout);
		else if (event.type == CAISSON_GAP)
			fprintf(stderr, "run: events %llu to %llu are lost\n",
			    (unsigned long long)event.from, (unsigned long long)event.to);
		else if (event.terminal)
			return status_of(&event);
	}
}

int
main(int argc, char **argv)
{
	struct caisson_options options = { .target = argv[1],
		.token = getenv("CAISSON_TOKEN"),
		.authorities = getenv("CAISSON_CA") };
	struct caisson_acquire acquire = { .runtime = "shell", .lease_ms = 60000 };
	struct caisson_error error = { .code = "" };
	struct caisson_client *client = NULL;
	struct caisson_sandbox *sandbox = NULL;
	struct caisson_session *session = NULL;
	int status = -1;

	if (argc != 3) {
		fprintf(stderr, "run: needs URL or SOCKET, and a LINE\n");
		return 125;
	}
	signal(SIGPIPE, SIG_IGN);
	client = caisson_client_create(&options, &error);
	if (client != NULL)
		sandbox = caisson_acquire(client, &acquire, &error);
	if (sandbox != NULL)
		session = caisson_session_open(sandbox, &error);
	if (session != NULL)
		status = run(session, argv[2], &error);
	if (status < 0)
		fprintf(stderr, "run: %s: %s\n", error.code, error.message);
	caisson_session_close(session);
	if (sandbox != NULL && caisson_release(sandbox, CAISSON_IMMEDIATE, false, &error) < 0)
		fprintf(stderr, "run: release: %s: %s\n", error.code, error.message);
	caisson_sandbox_destroy(sandbox);
	caisson_client_destroy(client);
	return status < 0 ? 125 : status;
}
