#include "client/remote.h"

#include <stdlib.h>
#include <string.h>

#include "client/confine.h"
#include "client/dial.h"
#include "client/input.h"
#include "client/render.h"
#include "client/text.h"
#include "common/util.h"

/* What may be done about it, where that is not in the message. */
static const struct {
	const char *code, *advice;
} advices[] = {
	{ "unauthenticated",
	    "name a token with --token-file or CAISSON_TOKEN, or a --certificate" },
	{ "permission_denied", "ask the operator of the daemon" },
	{ "transport", "is a daemon there? caissond -c FILE starts one, --socket or --url names "
		       "another" },
	{ "protocol", "is this a caissond of the same version?" },
};

int
remote_explain(const char *command, const struct caisson_error *error)
{
	const char *advice = "";

	for (size_t i = 0; i < countof(advices); i++)
		if (strcmp(advices[i].code, error->code) == 0)
			advice = advices[i].advice;
	if (strcmp(error->code, "usage") == 0)
		text_say("%s: %s", command, error->message);
	else
		text_say("%s: %s: %s%s%s", command, error->code, error->message,
		    advice[0] != '\0' ? "; " : "", advice);
	return EXIT_CANNOT;
}

/* The token of the file, without the newline behind it.  NULL after a line. */
static char *
read_token(const char *path, const char *command)
{
	char err[JSON_ERROR_MAX];
	char *text = input_read(path, err);

	if (text == NULL)
		text_say("%s: --token-file: %s", command, err);
	else
		text[strcspn(text, "\r\n")] = '\0';
	return text;
}

struct caisson_client *
remote_client(const struct options *o, const char *command)
{
	cleanup_free char *path = o->has_url ? NULL : dial_path(o, command);
	cleanup_free char *token = NULL;
	struct caisson_options options = { .namespace_name = o->namespace,
		.certificate = o->certificate,
		.key = o->key,
		.authorities = o->authorities };
	struct caisson_error error;
	struct caisson_client *c;

	options.target = o->has_url ? o->url : path;
	if (options.target == NULL)
		return NULL;
	if (o->has_token_file) {
		options.token = token = read_token(o->token_file, command);
		if (token == NULL)
			return NULL;
	} else if (o->has_url) {
		options.token = getenv("CAISSON_TOKEN");
	}
	c = caisson_client_create(&options, &error);
	if (c == NULL)
		remote_explain(command, &error);
	return c;
}

struct caisson_sandbox *
remote_sandbox(struct caisson_client *c, const char *command, const char *word)
{
	const char *slash = strrchr(word, '/');
	cleanup_free char *runtime = slash != NULL ? strndup(word, (size_t)(slash - word)) : NULL;
	struct caisson_error error;
	struct caisson_sandbox *s;

	if (slash == NULL && c->target.kind != TARGET_LOCAL) {
		text_say("%s: %.80s: a gateway wants RUNTIME/ID, as session list prints it", command,
		    word);
		return NULL;
	}
	s = caisson_sandbox_find(
	    c, runtime != NULL ? runtime : "", slash != NULL ? slash + 1 : word, &error);
	if (s == NULL)
		remote_explain(command, &error);
	return s;
}

int
remote_confine(const char *command)
{
	int r = client_confine();

	if (r == 0)
		return 0;
	text_say("%s: cannot confine this client: %s", command, strerror(-r));
	return EXIT_CANNOT;
}
