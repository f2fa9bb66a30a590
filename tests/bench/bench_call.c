/*
 * bench_call: what the broker adds to a tool call (T1 to T5, T23 to T26's call path).
 *
 *	bench_call [NAME...]	only these targets
 */
#include <dirent.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "tests/bench/floor.h"

#define PASSES 15

static bool
wanted(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

/* A directory for journals in the working directory: the file system of the build. */
static int
journal_directory(void)
{
	char path[] = "bench-journal-XXXXXX";
	int fd;

	if (mkdtemp(path) == NULL || (fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		die("directory");
	return fd;
}

static void
directory_remove(int fd)
{
	char link[64], path[4096];
	DIR *d = fdopendir(fd);
	struct dirent *e;
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	while (d != NULL && (e = readdir(d)) != NULL)
		unlinkat(fd, e->d_name, 0);
	if (n > 0) {
		path[n] = '\0';
		rmdir(path);
	}
	if (d != NULL)
		closedir(d);
}

struct setting {
	size_t payload;
	uint32_t calls, flight;
	bool split; /* broker on CPU 1, the rest on CPU 0 */
	bool attached; /* a client is there and reads, on CPU 1 */
	bool journal, durable, floor_syncs;
	bool write_each; /* of the floor */
	unsigned more_grants;
	int passes;
};

struct result {
	struct series p50, p99, rate; /* rate: calls a second */
};

static void
setting_open(const struct setting *s, struct world *w, struct floor *f)
{
	w->null_journal = !s->journal;
	w->durable = s->durable;
	w->detached = !s->attached;
	w->broker_cpu = s->split ? 1 : 0;
	w->more_grants = s->more_grants;
	w->journal_dir = s->journal ? journal_directory() : -1;
	world_open(w);
	w->run->payload = s->payload;
	w->run->calls = s->calls;
	w->run->warm = s->calls / 10;
	w->run->flight = s->flight;
	f->run = shared(sizeof *f->run);
	f->relay_cpu = w->broker_cpu;
	f->file_fd = -1;
	f->write_each = s->write_each;
	if (s->floor_syncs) {
		f->file_fd = openat(w->journal_dir, "floor",
		    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
		f->record = 560; /* about what a decision is: see the segment */
		if (f->file_fd < 0 || fallocate(f->file_fd, FALLOC_FL_KEEP_SIZE, 0, SEGMENT) < 0 ||
		    fsync(f->file_fd) < 0)
			die("floor's file");
	}
}

static void
setting_close(struct world *w, struct floor *f)
{
	world_close(w);
	munmap(f->run, sizeof *f->run);
	if (f->file_fd >= 0)
		close(f->file_fd);
	if (w->journal_dir >= 0)
		directory_remove(w->journal_dir);
}

/* Bytes of a record of the journal, once calls have been made. */
static size_t
record_bytes(const struct world *w)
{
	struct stat st;

	if (w->journal_dir < 0 || fstatat(w->journal_dir, "journal.00000001", &st, 0) < 0)
		return 0;
	return (size_t)st.st_size / (2 * w->run->calls);
}

static void
add_quantiles(struct result *r, struct run *p, struct run *f)
{
	int n = (int)(p->calls - p->warm);

	if (p->flight > 1) {
		add(&r->rate, n * 1e9 / (double)p->total_ns, n * 1e9 / (double)f->total_ns);
		return;
	}
	add(&r->p50, quantile(p->ns + p->warm, n, .5) / 1000,
	    quantile(f->ns + p->warm, n, .5) / 1000);
	add(&r->p99, quantile(p->ns + p->warm, n, .99) / 1000,
	    quantile(f->ns + p->warm, n, .99) / 1000);
}

static void
measure(const struct setting *s, struct result *r)
{
	struct world w = { 0 };
	struct floor f = { 0 };

	memset(r, 0, sizeof *r);
	setting_open(s, &w, &f);
	for (int pass = 0; pass < s->passes; pass++) {
		world_turn(&w);
		f.run->calls = s->calls;
		f.run->warm = w.run->warm;
		f.run->flight = s->flight;
		f.run->invoke = w.run->invoke;
		f.run->call = w.run->call;
		f.run->result = w.run->result;
		f.run->reply = w.run->reply != 0 ? w.run->reply : w.run->result;
		if (s->floor_syncs && pass == 0)
			f.record = record_bytes(&w);
		floor_run(&f);
		add_quantiles(r, w.run, f.run);
	}
	setting_close(&w, &f);
}

/* ---- the table ---------------------------------------------------------------------------- */

static void
call_small(int argc, char **argv)
{
	struct setting s = { .payload = 960, .calls = 3000, .flight = 1, .passes = PASSES };
	struct result r;

	if (wanted(argc, argv, "T1") || wanted(argc, argv, "T2")) {
		measure(&s, &r);
		print_series("T1", "us", &r.p50, "call, 1 KiB, same CPU, p50");
		print_series("T2", "us", &r.p99, "call, 1 KiB, same CPU, p99");
	}
	s.attached = true;
	if (wanted(argc, argv, "T1c")) {
		measure(&s, &r);
		print_series("T1c", "us", &r.p50, "the same with a client that reads the events");
	}
	s.attached = false;
	s.split = true;
	s.calls = 3000;
	if (wanted(argc, argv, "T3")) {
		measure(&s, &r);
		print_series("T3", "us", &r.p50, "call, 1 KiB, broker on the other CPU, p50");
	}
}

/* Two brokers take turns, and one of them has many grants. */
static void
call_among_grants(int argc, char **argv)
{
	struct setting few = { .payload = 960, .calls = 3000, .flight = 1, .passes = PASSES };
	struct setting many = few;
	struct world w = { 0 }, floor = { 0 };
	struct floor unused = { 0 }, unused_too = { 0 };
	struct result r = { 0 };

	if (!wanted(argc, argv, "T22c"))
		return;
	many.more_grants = 100000;
	setting_open(&many, &w, &unused);
	setting_open(&few, &floor, &unused_too);
	for (int pass = 0; pass < many.passes; pass++) {
		world_turn(&w);
		world_turn(&floor);
		add_quantiles(&r, w.run, floor.run);
	}
	setting_close(&floor, &unused_too);
	setting_close(&w, &unused);
	print_series("T22c", "us", &r.p50, "call among 100,000 grants, against one among two");
}

static void
call_large(int argc, char **argv)
{
	struct setting s = { .payload = 65536, .calls = 3000, .flight = 1, .passes = PASSES };
	struct result r;

	if (!wanted(argc, argv, "T4"))
		return;
	measure(&s, &r);
	print_series("T4", "us", &r.p50, "call, 64 KiB, same CPU, p50");
}

static void
call_in_flight(int argc, char **argv)
{
	struct setting s = { .payload = 960, .calls = 10000, .flight = 32, .passes = PASSES };
	struct result r;

	if (!wanted(argc, argv, "T5") && !wanted(argc, argv, "T5w"))
		return;
	measure(&s, &r);
	print_series("T5", "calls/s", &r.rate, "32 in flight, against a batching relay");
	s.write_each = true;
	measure(&s, &r);
	print_series("T5w", "calls/s", &r.rate, "32 in flight, against a write a message");
}

static void
call_audited(int argc, char **argv)
{
	struct setting s = { .payload = 960, .calls = 3000, .flight = 1, .journal = true,
		.passes = PASSES };
	struct result r;

	if (wanted(argc, argv, "T23")) {
		measure(&s, &r);
		print_series("T23", "us", &r.p50, "call, relaxed journal, p50");
	}
	s.durable = s.floor_syncs = true;
	s.calls = 250; /* a busy disk takes milliseconds for each */
	if (wanted(argc, argv, "T24")) {
		measure(&s, &r);
		print_series("T24", "us", &r.p50, "call, full journal, p50");
	}
}

/* Calls a second at one sync each, on the journal's file system. */
static double
sync_rate(int dir, size_t record, int n)
{
	static uint8_t bytes[4096];
	int fd = openat(dir, "rate", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	uint64_t begun;

	if (fd < 0 || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, SEGMENT) < 0 || fsync(fd) < 0)
		die("file");
	begun = now_ns();
	for (int i = 0; i < n; i++) {
		write_all(fd, bytes, record);
		if (fdatasync(fd) < 0)
			die("fdatasync");
	}
	close(fd);
	return n * 1e9 / (double)(now_ns() - begun);
}

static void
call_durable_rate(int argc, char **argv)
{
	struct setting s = { .payload = 960, .calls = 5000, .flight = FLIGHT_MAX,
		.journal = true, .durable = true, .passes = 9 };
	struct world w = { 0 };
	struct floor f = { 0 };
	struct series rate = { 0 };

	if (!wanted(argc, argv, "T25"))
		return;
	setting_open(&s, &w, &f);
	for (int pass = 0; pass < s.passes; pass++) {
		world_turn(&w);
		add(&rate, (w.run->calls - w.run->warm) * 1e9 / (double)w.run->total_ns,
		    sync_rate(w.journal_dir, record_bytes(&w), 200));
	}
	setting_close(&w, &f);
	print_series("T25", "calls/s", &rate, "full journal, 32 in flight, against a sync a call");
}

int
main(int argc, char **argv)
{
	be_important();
	pin(0);
	call_small(argc, argv);
	call_among_grants(argc, argv);
	call_large(argc, argv);
	call_in_flight(argc, argv);
	call_audited(argc, argv);
	call_durable_rate(argc, argv);
	return 0;
}
