/*
 * world_broker: the broker of a world (world.h), and the configuration that it is given.
 */
#ifndef TESTS_BENCH_WORLD_BROKER_H
#define TESTS_BENCH_WORLD_BROKER_H

#include <signal.h>
#include <sys/prctl.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/config.h"
#include "broker/confine.h"
#include "broker/journal.h"
#include "common/log.h"
#include "common/walk.h"
#include "tests/bench/wire.h"
#include "tests/bench/world_types.h"

/* ---- the broker ------------------------------------------------------------------------ */

static ssize_t
null_append(int fd, const struct iovec *iov, int n)
{
	ssize_t sum = 0;

	(void)fd;
	for (int i = 0; i < n; i++)
		sum += (ssize_t)iov[i].iov_len;
	return sum;
}

static int
null_sync(int fd)
{
	(void)fd;
	return 0;
}

static const struct journal_io null_io = { null_append, null_sync };

static void
world_on_journal(struct broker *b)
{
	(void)b;
	if (confine_self(CONFINE_READY) < 0)
		die("second filter");
}

static void
world_on_settled(struct broker *b)
{
	event_base_loopbreak(b->base);
}

static _Noreturn void
broker_process(const struct world *w, int control_fd, int config_fd)
{
	static struct broker b;
	struct fault fault;
	const char *row = "";

	pin(w->broker_cpu);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "bench-broker"); /* for perf report --comm */
	log_init("bench-broker", LOG_ERROR_);
	signal(SIGPIPE, SIG_IGN);
	if (config_read(config_fd, &b.config, &fault, &row) < 0) {
		fprintf(stderr, "bench: %s %s: %s\n", row, fault.field, fault.rule);
		_exit(1);
	}
	b.journal_io = w->null_journal ? &null_io : &journal_io_system;
	b.on_journal = world_on_journal;
	b.on_settled = world_on_settled;
	if (broker_init(&b, control_fd) < 0 || confine_self(CONFINE_START) < 0)
		die("broker");
	event_base_dispatch(b.base);
	_exit(0);
}

/* ---- its configuration ------------------------------------------------------------------ */

static void
pack_schema(struct buf *b)
{
	pack_map(b, 3);
	pack_str(b, "type");
	pack_str(b, "object");
	pack_str(b, "properties");
	pack_map(b, 2);
	pack_str(b, "path");
	pack_map(b, 1);
	pack_str(b, "type");
	pack_str(b, "string");
	pack_str(b, "data");
	pack_map(b, 1);
	pack_str(b, "type");
	pack_str(b, "string");
	pack_str(b, "required");
	pack_array(b, 1);
	pack_str(b, "path");
}

static void
pack_words(struct buf *b, const char *word)
{
	pack_array(b, 1);
	pack_str(b, word);
}

static void
add_grant(struct buf *out, const char *id, const char *namespace, const char *path,
    const char *action)
{
	struct buf segments = { 0 }, actions = { 0 };
	struct msg_config_grant g = { .id = slice_of(id), .subject = slice_of("agent:bench"),
		.issuer = slice_of("human:op"), .namespace = slice_of("default") };
	struct msg_config_capability c = { .namespace = slice_of(namespace),
		.scope = scope_descendants };

	pack_words(&segments, path);
	pack_words(&actions, action);
	c.path = buf_slice(&segments);
	c.actions = buf_slice(&actions);
	if (protocol_notify(out, MSG_config_grant, &g) < 0 ||
	    protocol_notify(out, MSG_config_capability, &c) < 0)
		die("grant");
	buf_finish(&segments);
	buf_finish(&actions);
}

static int
config_memfd(const struct world *w)
{
	uint8_t key[32] = { 1 };
	struct buf out = { 0 }, schema = { 0 };
	struct msg_config_broker broker = { .namespace = slice_of("default"),
		.authority = slice_of("human:op"), .owner = slice_of("human:op"),
		.purpose = slice_of("bench"), .key = { key, sizeof key },
		.durability = w->durable ? durability_full : durability_relaxed, .maxSteps = 16,
		.maxToolCalls = CALLS_MAX, .timeoutMs = 600000, .operator = getuid() };
	struct msg_config_runtime runtime = { .id = slice_of("bench"), .version = slice_of("1"),
		.kind = operation_kind_turn };
	struct msg_config_provider provider = { .id = slice_of("bench"), .concurrency = 100 };
	struct msg_config_tool tool = { .name = slice_of("files.read"),
		.namespace = slice_of("files"), .effect = effect_read, .action = slice_of("read"),
		.resource = slice_of("workspace"), .path = slice_of("{path}") };
	struct msg_config_end end;
	int fd = memfd_create("config", MFD_CLOEXEC);

	pack_schema(&schema);
	tool.input = buf_slice(&schema);
	if (protocol_notify(&out, MSG_config_broker, &broker) < 0 ||
	    protocol_notify(&out, MSG_config_runtime, &runtime) < 0 ||
	    protocol_notify(&out, MSG_config_provider, &provider) < 0 ||
	    protocol_notify(&out, MSG_config_tool, &tool) < 0)
		die("configuration");
	add_grant(&out, "run", EXECUTION_NAMESPACE, "bench", EXECUTION_ACTION);
	add_grant(&out, "docs", "workspace", "docs", "read");
	for (unsigned i = 0; i < w->more_grants; i++) {
		char id[32], path[32];

		snprintf(id, sizeof id, "more-%u", i);
		snprintf(path, sizeof path, "more%u", i);
		add_grant(&out, id, "workspace", path, "read");
	}
	protocol_notify(&out, MSG_config_end, &end);
	if (fd < 0 || write(fd, out.p, out.n) != (ssize_t)out.n)
		die("configuration");
	lseek(fd, 0, SEEK_SET);
	buf_finish(&out);
	buf_finish(&schema);
	return fd;
}

#endif /* TESTS_BENCH_WORLD_BROKER_H */
