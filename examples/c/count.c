/*
 * A tool of one's own in C: text.count, which needs no file at all.
 *
 *	make && cc -Iworker/sdk -o count examples/c/count.c build/lib/libcaisson-runtime.a
 *
 * As examples/provider/notes.yaml has one in Python, with `command: [/app/count]`.
 */
#include <caisson.h>
#include <caisson_provider.h>

static int
count(struct caisson_provider_call *call, struct caisson_writer *output)
{
	size_t n, words = 0, lines = 0, i;
	const char *text = caisson_bytes(caisson_get(call->arguments, "text"), &n);
	bool in_word = false;

	for (i = 0; i < n; i++) {
		bool is_word = text[i] != ' ' && text[i] != '\t' && text[i] != '\n';

		words += is_word && !in_word;
		lines += text[i] == '\n';
		in_word = is_word;
	}
	caisson_put_map(output, 3);
	caisson_put_str(output, "bytes");
	caisson_put_uint(output, n);
	caisson_put_str(output, "words");
	caisson_put_uint(output, words);
	caisson_put_str(output, "lines");
	caisson_put_uint(output, lines);
	return 0;
}

static const struct caisson_provider_tool tools[] = { { "text.count", count } };

int
main(void)
{
	return caisson_provider_serve("count", tools, 1, 4) == 0 ? 0 : 1;
}
