/*
 * broker_config_fixture: a good configuration as the supervisor packs it, to be changed.
 */
#ifndef TESTS_UNIT_BROKER_CONFIG_FIXTURE_H
#define TESTS_UNIT_BROKER_CONFIG_FIXTURE_H

#include <sys/mman.h>

#include "broker/standing.h"
#include "common/util.h"
#include "tests/unit/json_value.h"

/* What a test can change of a configuration; the rest is good. */
struct draft {
	struct msg_config_broker broker;
	struct msg_config_runtime runtime[2];
	struct msg_config_provider provider[2];
	struct msg_config_tool tool[2];
	struct msg_config_grant grant[2];
	struct msg_config_capability capability[2]; /* one for each grant */
	struct buf input, path, purposes, actions, namespaces, more, output, ceiling;
};

static const uint8_t key[32] = { 1, 2, 3, [31] = 32 };

#define S(text) slice_of(text)

static inline struct draft *
draft_create(void)
{
	struct draft *d = calloc(1, sizeof(*d));
	int i;

	ck_assert_ptr_nonnull(d);
	d->broker = (struct msg_config_broker){ .namespace = S("default"),
		.authority = S("human:operator"),
		.owner = S("human:owner"),
		.purpose = S("work"),
		.key = { key, 32 },
		.durability = durability_relaxed,
		.maxSteps = 16,
		.maxToolCalls = 17,
		.timeoutMs = 120000,
		.drainGraceMs = 5,
		.killGraceMs = 2000,
		.operator= 1000 };
	for (i = 0; i < 2; i++) {
		d->runtime[i] = (struct msg_config_runtime){ .id = S(i == 0 ? "r0" : "r1"),
			.version = S("1.0.0"),
			.kind = operation_kind_turn };
		d->provider[i] = (struct msg_config_provider){
			.id = S(i == 0 ? "p0" : "p1"), .concurrency = 4, .shared = i == 1
		};
		d->tool[i] = (struct msg_config_tool){ .name = S(i == 0 ? "files.read" : "a"),
			.description = S("reads"),
			.namespace = S("files"),
			.provider = (uint64_t)i,
			.effect = effect_read,
			.idempotent = true,
			.input = json_value(&d->input,
			    "{'type':'object','properties':{'path':{'type':'string'}}}"),
			.action = S("read"),
			.resource = S("workspace"),
			.path = S("{path}") };
		d->grant[i] = (struct msg_config_grant){ .id = S(i == 0 ? "g0" : "g1"),
			.subject = S("agent:r0"),
			.issuer = S("human:operator"),
			.namespace = S("default"),
			.has_issuedAt = true,
			.issuedAt = 7 };
		d->capability[i] = (struct msg_config_capability){ .namespace = S("workspace"),
			.path = json_value(&d->path, "['docs','a']"),
			.scope = scope_descendants,
			.actions = json_value(&d->actions, "['read','list']") };
		/* Both rows share one buffer: what was packed first would be gone. */
		d->tool[0].input = d->tool[i].input;
		d->capability[0].path = d->capability[i].path;
		d->capability[0].actions = d->capability[i].actions;
	}
	return d;
}

static inline void
draft_destroy(struct draft *d)
{
	buf_finish(&d->input);
	buf_finish(&d->path);
	buf_finish(&d->purposes);
	buf_finish(&d->actions);
	buf_finish(&d->namespaces);
	buf_finish(&d->more);
	buf_finish(&d->output);
	buf_finish(&d->ceiling);
	free(d);
}

static inline void
draft_pack(const struct draft *d, struct buf *b)
{
	int i, r = 0;

	r |= protocol_notify(b, MSG_config_broker, &d->broker);
	for (i = 0; i < 2; i++)
		r |= protocol_notify(b, MSG_config_runtime, &d->runtime[i]);
	for (i = 0; i < 2; i++)
		r |= protocol_notify(b, MSG_config_provider, &d->provider[i]);
	for (i = 0; i < 2; i++)
		r |= protocol_notify(b, MSG_config_tool, &d->tool[i]);
	for (i = 0; i < 2; i++) {
		r |= protocol_notify(b, MSG_config_grant, &d->grant[i]);
		r |= protocol_notify(b, MSG_config_capability, &d->capability[i]);
	}
	r |= protocol_notify(b, MSG_config_end, &(struct msg_config_end){ 0 });
	ck_assert_int_eq(r, 0);
}

/* Reads `n` bytes as a configuration, out of a memfd whose offset stands at its end. */
static inline int
read_bytes(const void *p, size_t n, struct config **ret, struct fault *fault, const char **row)
{
	int fd = memfd_create("config", MFD_CLOEXEC), r;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, p, n), (ssize_t)n);
	r = config_read(fd, ret, fault, row);
	close(fd);
	return r;
}

/* Rows by their letter: Broker, Runtime, Provider, Tool, Grant, Capability, End; L: ceiling,
 * x: hello. */
static inline void
pack_rows(const char *letters, struct buf *b)
{
	struct draft *d = draft_create();
	int r = 0;

	for (; *letters != '\0'; letters++) {
		switch (*letters) {
		case 'B': r |= protocol_notify(b, MSG_config_broker, &d->broker); break;
		case 'R': r |= protocol_notify(b, MSG_config_runtime, &d->runtime[0]); break;
		case 'P': r |= protocol_notify(b, MSG_config_provider, &d->provider[0]); break;
		case 'T': r |= protocol_notify(b, MSG_config_tool, &d->tool[0]); break;
		case 'G': r |= protocol_notify(b, MSG_config_grant, &d->grant[0]); break;
		case 'L':
			r |= protocol_notify(
			    b, MSG_config_ceiling, &(struct msg_config_ceiling){ 0 });
			break;
		case 'C':
			r |= protocol_notify(b, MSG_config_capability, &d->capability[0]);
			break;
		case 'E':
			r |= protocol_notify(b, MSG_config_end, &(struct msg_config_end){ 0 });
			break;
		case 'x':
			r |= protocol_request(
			    b, MSG_hello, 1, &(struct msg_hello){ .protocol = 1 });
			break;
		}
	}
	ck_assert_int_eq(r, 0);
	draft_destroy(d);
}

#endif /* TESTS_UNIT_BROKER_CONFIG_FIXTURE_H */
