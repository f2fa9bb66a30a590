#include "broker/record.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <seccomp.h>

#include "broker/broker.h"
#include "broker/call.h"
#include "broker/operation.h"
#include "broker/sandbox.h"
#include "broker/turn.h"
#include "common/clock.h"
#include "common/hex.h"
#include "common/util.h"
#include "common/walk.h"

#define MINT_RANDOM 20 /* hexadecimal digits, and behind them */
#define MINT_COUNT  12

/* The next number of as many hexadecimal digits. */
static void
count_up(char *digits, size_t n)
{
	do {
		char *d = &digits[--n];

		*d = *d == '9' ? 'a' : *d == 'f' ? '0' : (char)(*d + 1);
		if (*d != '0')
			return;
	} while (n > 0);
}

void
broker_mint(char id[40], const char *prefix)
{
	static char last[MINT_RANDOM + MINT_COUNT + 1];
	size_t n = strlen(prefix);

	assert(n + 1 + sizeof last <= 40);
	/* Unique is all that an id has to be; randomness for each is a system call or two. */
	if (last[0] == '\0') {
		uint8_t random[MINT_RANDOM / 2];

		arc4random_buf(random, sizeof random);
		hex_encode(random, sizeof random, last);
		memset(last + MINT_RANDOM, '0', MINT_COUNT);
	}
	count_up(last + MINT_RANDOM, MINT_COUNT);
	memcpy(id, prefix, n);
	id[n] = '-';
	memcpy(id + n + 1, last, sizeof last);
}

static void
say_common(struct msg_record *m, const struct operation *op)
{
	const struct config *config = op->config;

	RECORD_TEXT(m, namespace, config->namespace);
	RECORD_TEXT(m, authority, config->authority);
	RECORD_TEXT(m, owner, config->owner);
	RECORD_TEXT(m, operation, op->id);
	RECORD_TEXT(m, trace, op->trace);
	RECORD_TEXT(m, runtime, config->runtimes[op->runtime].id);
	if (op->sandbox != NULL)
		RECORD_TEXT(m, session, op->sandbox->id);
	if (op->turn != NULL) {
		RECORD_TEXT(m, actor, op->turn->agent);
		RECORD_TEXT(m, purpose, op->turn->context.purpose);
	}
}

int
record_common(struct fields *ret, const struct operation *op)
{
	struct msg_record m = { 0 };

	say_common(&m, op);
	return protocol_pack_fields(ret, MSG_record, &m);
}

int
record_call_common(struct fields *ret, const struct call *c)
{
	struct msg_record m = { 0 };

	say_common(&m, c->operation);
	RECORD_TEXT(&m, call, c->id);
	RECORD_SLICE(&m, callId, c->name);
	RECORD_TEXT(&m, tool, c->tool->name);
	return protocol_pack_fields(ret, MSG_record, &m);
}

void
record_init_with(
    struct record *r, struct broker *b, const struct fields *common, const char *type)
{
	memset(r, 0, sizeof *r);
	r->broker = b;
	broker_mint(r->id, "r");
	r->m.id = slice_of(r->id);
	r->m.type = slice_of(type);
	r->m.at = clock_wall_ms();
	r->common = common;
}

void
record_init(struct record *r, struct broker *b, const struct operation *op, const char *type)
{
	record_init_with(r, b, op != NULL ? &op->common : NULL, type);
	if (op != NULL)
		return;
	RECORD_TEXT(&r->m, namespace, b->config->namespace);
	RECORD_TEXT(&r->m, authority, b->config->authority);
	RECORD_TEXT(&r->m, owner, b->config->owner);
}

void
record_denial(struct record *r, const struct decision *d)
{
	const struct grant *closest = d->grant != NULL ? d->grant : d->closest;
	const char *detail = decision_detail(d);

	r->m.has_outcome = true;
	r->m.outcome = record_outcome_denied;
	RECORD_TEXT(&r->m, reason, verdict_name(d->verdict));
	RECORD_TEXT(&r->m, cause, decision_cause(d));
	r->m.has_failClosed = r->m.failClosed = verdict_fails_closed(d->verdict);
	if (closest != NULL)
		RECORD_TEXT(&r->m, grant, closest->id);
	if (detail != NULL)
		RECORD_TEXT(&r->m, detail, detail);
}

int
record_append(const struct record *r, enum journal_class class, journal_fn *done, void *arg)
{
	struct broker *b = r->broker;
	int ret;

	b->record.n = 0;
	ret = protocol_pack_with(&b->record, MSG_record, r->common, &r->m);
	if (ret < 0)
		return ret;
	ret = journal_append(b->journal, buf_slice(&b->record), class, done, arg);
	if (ret == 0)
		stats_on_record(&b->stats, &r->m);
	return ret;
}

/* The name of a system call; the caller frees it; NULL for a number nobody knows. */
static char *
syscall_name(const struct exit_facts *exit)
{
	return seccomp_syscall_resolve_num_arch(exit->arch, (int)exit->syscall);
}

/* Of the broker's own limits the name is with the operation; of the kernel's, in the facts. */
static const char *
limit_name(const struct operation *op)
{
	const struct limit_desc *d = limit_desc(op->exit.limit);

	return op->limit_name != NULL ? op->limit_name : d != NULL ? d->name : "unknown";
}

void
cause_detail(const struct operation *op, char *buf, size_t cap)
{
	char *name;

	buf[0] = '\0';
	switch (op->ending) {
	case ENDING_exited: snprintf(buf, cap, "%d", op->exit.status); break;
	case ENDING_signaled:
		snprintf(buf, cap, "%d%s", op->exit.status, op->exit.core ? " core" : "");
		break;
	case ENDING_seccomp:
		name = syscall_name(&op->exit);
		if (name != NULL)
			snprintf(buf, cap, "%s", name);
		else if (op->exit.syscall != UINT32_MAX)
			snprintf(buf, cap, "%u", op->exit.syscall);
		free(name);
		break;
	case ENDING_limit:
		snprintf(buf, cap, "%s", limit_name(op));
		break;
	case ENDING_runtime_protocol_violation:
		snprintf(buf, cap, "%s%s%s%s%s", op->fault.rule != NULL ? op->fault.rule : "",
		    op->fault.method != NULL ? ": " : "",
		    op->fault.method != NULL ? op->fault.method : "",
		    op->fault.field != NULL ? ": " : "",
		    op->fault.field != NULL ? op->fault.field : "");
		break;
	case ENDING_start_failed:
		snprintf(buf, cap, "%s: %s", layer_name(op->layer), strerror(op->error));
		break;
	case ENDING_completed:
		if (op->kind == operation_kind_command && op->exit.kind == EXIT_EXITED)
			snprintf(buf, cap, "%d", op->exit.status);
		else if (op->kind == operation_kind_command &&
		    op->exit.kind == EXIT_SIGNALED)
			snprintf(buf, cap, "signal %d%s", op->exit.status,
			    op->exit.core ? " core" : "");
		break;
	default: break;
	}
}

/* How the kernel saw a command end, as {kind, code | signal, core}. */
static void
exit_pack(struct buf *b, const struct exit_facts *exit)
{
	if (exit->kind == EXIT_EXITED) {
		pack_map(b, 2);
		pack_str(b, "kind");
		pack_str(b, "exited");
		pack_str(b, "code");
		pack_int(b, exit->status);
	} else if (exit->kind == EXIT_SIGNALED) {
		pack_map(b, 3);
		pack_str(b, "kind");
		pack_str(b, "signaled");
		pack_str(b, "signal");
		pack_int(b, exit->status);
		pack_str(b, "core");
		pack_bool(b, exit->core != 0);
	} else {
		pack_map(b, 1);
		pack_str(b, "kind");
		pack_str(b, "unknown");
	}
}

void
cause_pack(struct buf *b, const struct operation *op)
{
	const struct ending_desc *e = ending_desc(op->ending);
	char *name;

	if (op->ending == ENDING_exited || op->ending == ENDING_signaled ||
	    (op->ending == ENDING_completed && op->kind == operation_kind_command)) {
		exit_pack(b, &op->exit);
		return;
	}
	switch (op->ending) {
	case ENDING_seccomp:
		name = syscall_name(&op->exit);
		/* A filter that kills by itself says no more. */
		pack_map(b, op->exit.syscall == UINT32_MAX ? 1 : 2);
		pack_str(b, "kind");
		pack_str(b, e->cause);
		if (op->exit.syscall != UINT32_MAX)
			pack_str(b, "syscall");
		if (op->exit.syscall != UINT32_MAX && name == NULL)
			pack_uint(b, op->exit.syscall);
		else if (op->exit.syscall != UINT32_MAX)
			pack_str(b, name);
		free(name);
		break;
	case ENDING_limit:
		pack_map(b, 2);
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "name");
		pack_str(b, limit_name(op));
		break;
	case ENDING_runtime_protocol_violation:
		pack_map(b, 2u + (op->fault.method != NULL) + (op->fault.field != NULL));
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "rule");
		pack_str(b, op->fault.rule != NULL ? op->fault.rule : "unknown");
		if (op->fault.method != NULL) {
			pack_str(b, "method");
			pack_str(b, op->fault.method);
		}
		if (op->fault.field != NULL) {
			pack_str(b, "field");
			pack_str(b, op->fault.field);
		}
		break;
	case ENDING_start_failed:
		pack_map(b, 3u + (op->layer == LAYER_DEATHS));
		pack_str(b, "kind");
		pack_str(b, e->cause);
		pack_str(b, "layer");
		pack_str(b, layer_name(op->layer));
		pack_str(b, "errno");
		pack_int(b, op->error);
		if (op->layer == LAYER_DEATHS) {
			pack_str(b, "deaths");
			pack_uint(b, op->deaths);
		}
		break;
	default:
		pack_map(b, 1);
		pack_str(b, "kind");
		pack_str(b, e->cause);
	}
}

static const char *const meter_names[] = {
	[METER_NONE] = "nobody",
	[METER_RUSAGE] = "rusage",
	[METER_CGROUP_V1] = "cgroup v1",
	[METER_CGROUP_V2] = "cgroup v2",
};

void
usage_pack(struct buf *b, const struct exit_facts *exit)
{
	pack_map(b, 5u + (exit->processes != 0));
	pack_str(b, "cpuMs");
	pack_uint(b, exit->cpu_us / 1000);
	pack_str(b, "peakBytes");
	pack_uint(b, exit->peak_bytes);
	pack_str(b, "readBytes");
	pack_uint(b, exit->read_bytes);
	pack_str(b, "writtenBytes");
	pack_uint(b, exit->written_bytes);
	if (exit->processes != 0) {
		pack_str(b, "processes");
		pack_uint(b, exit->processes);
	}
	pack_str(b, "source");
	pack_str(b, exit->meter < countof(meter_names) ? meter_names[exit->meter]
						       : meter_names[METER_NONE]);
}

void
record_usage(struct msg_record *r, const struct exit_facts *exit)
{
	if (exit->kind == EXIT_NONE)
		return;
	r->has_cpuUs = r->has_peakBytes = r->has_readBytes = r->has_writtenBytes = true;
	r->cpuUs = exit->cpu_us;
	r->peakBytes = exit->peak_bytes;
	r->readBytes = exit->read_bytes;
	r->writtenBytes = exit->written_bytes;
	r->has_processes = exit->processes != 0;
	r->processes = exit->processes;
}
