#include "gateway/metrics.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"
#include "common/walk.h"

enum owner {
	OWNER_broker,
	OWNER_gateway,
};

static const struct metric {
	const char *field, *name, *type, *help;
	enum owner owner;
	size_t offset; /* in struct gateway_stats */
} metrics[] = {
#define METRIC_broker(field)  0
#define METRIC_gateway(field) offsetof(struct gateway_stats, field)
#define METRIC(field, name, type, owner, help)                                                 \
	{ #field, name, #type, help, OWNER_##owner, METRIC_##owner(field) },
#include "common/metrics.def"
};

static double started_seconds;
static uint64_t descriptors_max;
static int memory_fd = -1; /* /proc/self/statm */

void
metrics_init(void)
{
	struct rlimit limit;

	started_seconds = (double)clock_wall_ms() / 1000;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		descriptors_max = limit.rlim_cur;
	/* Not every chamber shows /proc. */
	memory_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

static void __attribute__((format(printf, 2, 3)))
line(struct buf *out, const char *fmt, ...)
{
	char text[512];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	assert(n >= 0 && (size_t)n < sizeof(text));
	buf_add(out, text, (size_t)n);
}

static size_t
family(const char *name)
{
	return strcspn(name, "{");
}

/* What stands once for all rows of one name. */
static void
put_head(struct buf *out, const struct metric *m, const struct metric *last)
{
	int n = (int)family(m->name);

	if (last != NULL && family(last->name) == (size_t)n &&
	    strncmp(last->name, m->name, (size_t)n) == 0)
		return;
	line(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", n, m->name, m->help, n, m->name, m->type);
}

static bool
read_value(const struct metric *m, const struct gateway *g, const struct slice *broker,
    uint64_t *ret)
{
	struct value v;

	if (m->owner == OWNER_gateway) {
		memcpy(ret, (const uint8_t *)&g->stats + m->offset, sizeof(*ret));
		return true;
	}
	if (broker == NULL || !value_get(*broker, m->field, &v) || v.type != VALUE_UINT)
		return false;
	*ret = v.uint;
	return true;
}

static void
put_rows(struct buf *out, const struct gateway *g, const struct slice *broker)
{
	const struct metric *m, *last = NULL;
	uint64_t value;

	for (m = metrics; m < metrics + countof(metrics); m++) {
		if (!read_value(m, g, broker, &value))
			continue;
		put_head(out, m, last);
		line(out, "%s %" PRIu64 "\n", m->name, value);
		last = m;
	}
}

static void
put_memory(struct buf *out)
{
	char text[128];
	unsigned long total, resident, page = (unsigned long)sysconf(_SC_PAGESIZE);
	ssize_t n = memory_fd >= 0 ? pread(memory_fd, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return;
	text[n] = '\0';
	if (sscanf(text, "%lu %lu", &total, &resident) != 2)
		return;
	line(out,
	    "# HELP process_resident_memory_bytes Memory of the gateway.\n"
	    "# TYPE process_resident_memory_bytes gauge\n"
	    "process_resident_memory_bytes %lu\n"
	    "# HELP process_virtual_memory_bytes Addresses of the gateway.\n"
	    "# TYPE process_virtual_memory_bytes gauge\n"
	    "process_virtual_memory_bytes %lu\n",
	    resident * page, total * page);
}

static void
put_process(struct buf *out)
{
	struct rusage used;

	if (getrusage(RUSAGE_SELF, &used) == 0)
		line(out,
		    "# HELP process_cpu_seconds_total "
		    "Time of processors that the gateway used.\n"
		    "# TYPE process_cpu_seconds_total counter\n"
		    "process_cpu_seconds_total %.6f\n",
		    (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
			(double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
	line(out,
	    "# HELP process_start_time_seconds When the gateway began, since 1970.\n"
	    "# TYPE process_start_time_seconds gauge\n"
	    "process_start_time_seconds %.3f\n"
	    "# HELP process_max_fds Descriptors that the gateway may have.\n"
	    "# TYPE process_max_fds gauge\n"
	    "process_max_fds %" PRIu64 "\n",
	    started_seconds, descriptors_max);
	put_memory(out);
}

void
metrics_write(struct buf *out, const struct gateway *g, const struct slice *broker)
{
	line(out,
	    "# HELP caisson_build_info What was built.\n"
	    "# TYPE caisson_build_info gauge\n"
	    "caisson_build_info{version=\"" VERSION "\"} 1\n"
	    "# HELP caisson_broker_up Does the broker answer the gateway?\n"
	    "# TYPE caisson_broker_up gauge\n"
	    "caisson_broker_up %d\n",
	    broker != NULL);
	put_rows(out, g, broker);
	put_process(out);
}
