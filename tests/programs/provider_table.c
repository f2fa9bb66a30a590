/* The tools that tests/integration/test_sdk_provider.py calls, in C. */
#include <stdio.h>
#include <unistd.h>

#include "worker/sdk/caisson.h"
#include "worker/sdk/caisson_provider.h"

static int
echo(struct caisson_provider_call *call, struct caisson_writer *output)
{
	caisson_put_map(output, 5);
	caisson_put_str(output, "tool");
	caisson_put_value(output, call->tool);
	caisson_put_str(output, "arguments");
	caisson_put_value(output, call->arguments);
	caisson_put_str(output, "action");
	caisson_put_value(output, call->action);
	caisson_put_str(output, "namespace");
	caisson_put_value(output, call->namespace);
	caisson_put_str(output, "path");
	caisson_put_value(output, call->path);
	return 0;
}

static int
fail(struct caisson_provider_call *call, struct caisson_writer *output)
{
	(void)output;
	return caisson_provider_fail(call, "not_found", "there is none", true);
}

static int
stop(struct caisson_provider_call *call, struct caisson_writer *output)
{
	while (!caisson_provider_wait_cancelled(call, 60000))
		continue;
	caisson_put_str(output, "stopped");
	return 0;
}

static int
big(struct caisson_provider_call *call, struct caisson_writer *output)
{
	static char text[800 << 10];

	(void)call;
	memset(text, 'x', sizeof text);
	caisson_put_str_n(output, text, sizeof text);
	return 0;
}

static int
deep(struct caisson_provider_call *call, struct caisson_writer *output)
{
	(void)call;
	for (int i = 0; i < 28; i++)
		caisson_put_array(output, 1);
	caisson_put_nil(output);
	return 0;
}

static int
half(struct caisson_provider_call *call, struct caisson_writer *output)
{
	(void)call;
	caisson_put_array(output, 2);
	caisson_put_nil(output);
	return 0;
}

static int
crash(struct caisson_provider_call *call, struct caisson_writer *output)
{
	(void)call;
	(void)output;
	return -77;
}

static int
say(struct caisson_provider_call *call, struct caisson_writer *output)
{
	(void)call;
	puts("to standard output");
	fflush(stdout);
	fputs("to standard error\n", stderr);
	caisson_put_str(output, write(STDOUT_FILENO, "\xff\0\1", 3) == 3 ? "said" : "not said");
	return 0;
}

static int
mine(struct caisson_provider_call *call, struct caisson_writer *output)
{
	if (!caisson_provider_names(call, "path"))
		return caisson_provider_fail(call, "invalid_tool_arguments", "path", false);
	caisson_put_value(output, call->path);
	return 0;
}

static const struct caisson_provider_tool tools[] = {
	{ "t.echo", echo },
	{ "t.fail", fail },
	{ "t.wait", stop },
	{ "t.big", big },
	{ "t.deep", deep },
	{ "t.half", half },
	{ "t.crash", crash },
	{ "t.print", say },
	{ "t.mine", mine },
};

int
main(void)
{
	return caisson_provider_serve("table", tools, sizeof tools / sizeof *tools, 4) == 0 ? 0 : 1;
}
