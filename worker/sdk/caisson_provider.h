/*
 * caisson_provider: the provider's half of a Caisson link, in C: tools of one's own.
 *
 * A provider is a program that does effects for runtimes it never meets.  The broker has
 * decided each call before it comes here: which action, on which resource.  The provider does
 * exactly that:
 *
 *	#include <caisson.h>
 *	#include <caisson_provider.h>
 *
 *	static int
 *	get(struct caisson_provider_call *call, struct caisson_writer *output)
 *	{
 *		if (!caisson_provider_names(call, "name")) // it is not what was decided
 *			return caisson_provider_fail(call, "invalid_tool_arguments", "name", false);
 *		...
 *		caisson_put_str(output, text);
 *		return 0;
 *	}
 *
 *	static const struct caisson_provider_tool tools[] = { { "notes.get", get } };
 *
 *	int
 *	main(void)
 *	{
 *		return caisson_provider_serve("notes", tools, 1, 4) == 0 ? 0 : 1;
 *	}
 *
 * Handlers run on threads, up to `concurrency` at once, which must not be less than the
 * configuration's.  What they print goes to the log of the broker (standard error) or nowhere.
 * Values are read and written with caisson.h; link libcaisson-runtime.a, which needs libc only.
 */
#ifndef CAISSON_PROVIDER_H
#define CAISSON_PROVIDER_H

#ifndef CAISSON_H
#error "include caisson.h before caisson_provider.h"
#endif

/* One call; what it points to lives until its handler returns. */
struct caisson_provider_call {
	/* as the runtime said them; they fit the declared schema */
	struct caisson_value tool, arguments;
	/* what was decided: strings, and an array of segments, empty for the root */
	struct caisson_value action, namespace, path;
	uint32_t timeout_ms; /* from the moment it was sent: then nobody waits any more */
	struct caisson_provider_private *private;
};

/*
 * Does what `call` asks for, and writes one value for its output (nothing is nil).  Returns 0;
 * what caisson_provider_fail() returned; anything else fails the call with
 * `tool_execution_failed`.  So does an output that is no whole value, or cannot be sent, with
 * `invalid_tool_result`.
 */
typedef int caisson_provider_handler(
    struct caisson_provider_call *call, struct caisson_writer *output);

struct caisson_provider_tool {
	const char *name;
	caisson_provider_handler *handler;
};

/* The call has failed: `code` of 1..64 bytes, `message` of up to 4096, both copied; a string
 * that is longer, and a code that is empty, make it `tool_execution_failed`.  Returns what the
 * handler is to return. */
int caisson_provider_fail(
    struct caisson_provider_call *call, const char *code, const char *message, bool retryable);

/*
 * Does the argument, a path with slashes, name the decided path and nothing else?  One that is
 * not there names the root.  An argument is data of the runtime's: whoever acts on it instead
 * of call->path needs this, or acts on what nobody decided.
 */
bool caisson_provider_names(const struct caisson_provider_call *call, const char *argument);

/* Does nobody wait any more?  Then return soon.  The other one waits for that, at most
 * `timeout_ms`; -1: as long as it takes. */
bool caisson_provider_cancelled(struct caisson_provider_call *call);
bool caisson_provider_wait_cancelled(struct caisson_provider_call *call, int timeout_ms);

/*
 * Answers calls until the broker closes the link, which is the normal end: 0.  Calls that still
 * run are cancelled, and their threads end with the program: return from main() soon.  -EPROTO
 * if the broker said what no broker says; -EBADF if CAISSON_LINK_FD names no descriptor;
 * -ENOMEM.  Once in a program; `tools` must live on.
 */
int caisson_provider_serve(const char *name, const struct caisson_provider_tool *tools,
    size_t ntools, unsigned concurrency);

#endif /* CAISSON_PROVIDER_H */
