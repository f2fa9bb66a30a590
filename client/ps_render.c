#include "client/ps_render.h"

#include <stdio.h>
#include <string.h>

#include "client/text.h"
#include "common/json.h"
#include "common/util.h"
#include "common/walk.h"

static const char *const heads[] = { "ROLE", "STATE", "SESSION", "NAME", "PID", "UID",
	"PROFILE", "NETWORK", "LAYERS", "FDS", "PROCS", "CPU", "MEMORY", "SINCE" };
static const char *const roles[] = { "broker", "ledger", "worker", "provider",
	"gateway", "standby" };
static const char *const states[] = { "starting", "running", "warm" };
static const char *const networks[] = { "own", "shared" };

const char *
ps_role(enum process_role role)
{
	return roles[role];
}

/* ---- for programs ------------------------------------------------------------------ */

static void
add_uint(struct buf *out, const char *key, bool has, uint64_t n)
{
	if (has)
		text_addf(out, ",\"%s\":%llu", key, (unsigned long long)n);
}

/* The first of them has no comma before it. */
static void
add_usage(struct buf *out, const struct msg_process_row *row)
{
	struct buf usage = { 0 };

	add_uint(&usage, "processes", row->has_processes, row->processes);
	add_uint(&usage, "cpuUs", row->has_cpuUs, row->cpuUs);
	add_uint(&usage, "residentBytes", row->has_residentBytes, row->residentBytes);
	add_uint(&usage, "peakBytes", row->has_peakBytes, row->peakBytes);
	if (usage.n > 0)
		buf_add(out, usage.p + 1, usage.n - 1);
	out->failed |= usage.failed;
	buf_finish(&usage);
}

static void
add_json(struct buf *out, const char *before, bool has, struct slice value)
{
	if (!has)
		return;
	buf_add(out, before, strlen(before));
	json_write(value, out);
}

void
ps_render_jsonl(const struct msg_process_row *row, struct buf *out)
{
	text_addf(
	    out, "{\"role\":\"%s\",\"state\":\"%s\"", roles[row->role], states[row->state]);
	add_uint(out, "session", row->has_session, row->session);
	if (row->has_id) {
		text_addf(out, ",\"id\":");
		json_write_string(row->id, out);
	}
	add_uint(out, "pid", row->pid > 0, row->pid);
	add_uint(out, "uid", row->has_uid, row->uid);
	text_addf(out, ",\"profile\":");
	json_write_string(row->profile, out);
	text_addf(out, ",\"network\":\"%s\"", networks[row->network]);
	if (row->has_applied) {
		add_json(out, ",\"layers\":{\"applied\":", true, row->applied);
		add_json(out, ",\"absent\":", row->has_absent, row->absent);
		text_addf(out, "}");
	}
	if (row->has_cgroup) {
		text_addf(out, ",\"cgroup\":");
		json_write_string(row->cgroup, out);
	}
	add_json(out, ",\"descriptors\":{\"handed\":", true, row->handed);
	add_uint(out, "open", row->has_descriptors, row->descriptors);
	text_addf(out, "}");
	if (row->has_calls) {
		text_addf(out, ",\"places\":{\"calls\":%llu", (unsigned long long)row->calls);
		add_uint(out, "lost", row->has_lost, row->lost);
		add_uint(out, "waiting", row->has_waiting, row->waiting);
		text_addf(out, "}");
	}
	text_addf(out, ",\"usage\":{");
	add_usage(out, row);
	text_addf(out, "},\"since\":\"");
	text_addf(out, text_add_time(out, row->since, "%FT%T", true) ? "Z\"}\n" : "\"}\n");
}

/* ---- for people -------------------------------------------------------------------- */

/* What it has lost is no detail: it serves fewer than it should. */
static void
cell_state(struct ps_table *t, const struct msg_process_row *row)
{
	text_addf(&t->cells.text, "%s", states[row->state]);
	if (row->has_lost && row->lost > 0)
		text_addf(&t->cells.text, ", %llu lost", (unsigned long long)row->lost);
	cells_end(&t->cells);
}

/* "20", or "19 of 20" where its profile lets it run without one. */
static void
cell_layers(struct ps_table *t, const struct msg_process_row *row)
{
	struct slice applied = row->applied, absent = row->absent;
	uint32_t n = row->has_applied ? value_next(&applied).count : 0;
	uint32_t lacks = row->has_absent ? value_next(&absent).count : 0;

	if (!row->has_applied)
		text_addf(&t->cells.text, "-");
	else if (lacks == 0)
		text_addf(&t->cells.text, "%u", n);
	else
		text_addf(&t->cells.text, "%u of %u", n, n + lacks);
	cells_end(&t->cells);
}

static void
cell_usage(struct ps_table *t, const struct msg_process_row *row)
{
	if (row->has_cpuUs)
		text_addf(&t->cells.text, "%.2fs", (double)row->cpuUs / 1e6);
	else
		text_addf(&t->cells.text, "-");
	cells_end(&t->cells);
	if (row->has_residentBytes)
		text_addf(&t->cells.text, "%.1fMiB", (double)row->residentBytes / (1 << 20));
	else
		text_addf(&t->cells.text, "-");
	cells_end(&t->cells);
}

/* "landlock seccomp ...": of maps, the layer and why it is absent. */
static void
add_list(struct buf *out, struct slice list, const char *none)
{
	struct value array = value_next(&list), v, e;
	uint32_t i;

	if (array.type != VALUE_ARRAY || array.count == 0) {
		text_addf(out, "%s", none);
		return;
	}
	for (i = 0; i < array.count; i++) {
		struct value item = value_skip(&list);

		buf_add(out, ", ", i > 0 ? 2 : 0);
		if (item.type == VALUE_STR)
			text_escape_line(item.bytes, out);
		else if (item.type == VALUE_MAP && value_get(item.raw, "layer", &v) &&
			 v.type == VALUE_STR && value_get(item.raw, "errno", &e) &&
			 e.type == VALUE_UINT && e.uint < 4096) {
			text_escape_line(v.bytes, out);
			text_addf(out, " (%s)", strerror((int)e.uint));
		}
	}
}

static void
add_detail(struct buf *out, const struct msg_process_row *row)
{
	if (row->has_applied) {
		text_addf(out, "    layers: ");
		add_list(out, row->applied, "none");
		text_addf(out, "; absent: ");
		add_list(out, row->absent, "none");
		text_addf(out, "; ");
	} else {
		text_addf(out, "    ");
	}
	if (row->has_cgroup) {
		text_addf(out, "cgroup: ");
		text_escape_line(row->cgroup, out);
		text_addf(out, "; ");
	}
	text_addf(out, "born with: ");
	add_list(out, row->handed, "none");
	if (row->has_calls)
		text_addf(out, "; calls: %llu, %llu wait",
		    (unsigned long long)row->calls, (unsigned long long)row->waiting);
	text_addf(out, "\n");
}

void
ps_table_add(struct ps_table *t, const struct msg_process_row *row)
{
	cells_add_text(&t->cells, true, slice_of(roles[row->role]));
	cell_state(t, row);
	cells_add_uint(&t->cells, row->has_session, row->session);
	cells_add_text(&t->cells, row->has_id, row->id);
	cells_add_uint(&t->cells, row->pid > 0, row->pid);
	cells_add_uint(&t->cells, row->has_uid, row->uid);
	cells_add_text(&t->cells, true, row->profile);
	cells_add_text(&t->cells, true, slice_of(networks[row->network]));
	cell_layers(t, row);
	cells_add_uint(&t->cells, row->has_descriptors, row->descriptors);
	cells_add_uint(&t->cells, row->has_processes, row->processes);
	cell_usage(t, row);
	if (text_add_time(&t->cells.text, row->since, "%FT%T", false))
		text_addf(&t->cells.text, "Z");
	cells_end(&t->cells);
	add_detail(&t->detail, row);
}

void
ps_table_render(const struct ps_table *t, bool verbose, struct buf *out)
{
	const uint8_t *detail = t->detail.p, *end;
	size_t i;

	if (t->detail.failed) {
		out->failed = true;
		return;
	}
	cells_render_head(&t->cells, out);
	for (i = 0; i < cells_rows(&t->cells); i++, detail = end) {
		end = (const uint8_t *)memchr(detail, '\n', t->detail.n) + 1;
		cells_render_row(&t->cells, i, out);
		if (verbose)
			buf_add(out, detail, (size_t)(end - detail));
	}
}

void
ps_table_init(struct ps_table *t)
{
	*t = (struct ps_table){ .cells = { .heads = heads, .columns = countof(heads) } };
}

void
ps_table_finish(struct ps_table *t)
{
	cells_finish(&t->cells);
	buf_finish(&t->detail);
}
