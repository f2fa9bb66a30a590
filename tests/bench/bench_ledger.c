/*
 * bench_ledger: does the index keep up, and does the call path notice (T26)?
 *
 *	bench_ledger [NAME...]
 */
#include <dirent.h>
#include <sys/stat.h>

#include "broker/record.h"
#include "ledger/ledger.h"
#include "tests/bench/world.h"

#define RECORDS	    100000
#define PASSES	    3 /* of the index: each reads all records */
#define CALL_PASSES 9
#define CALLS	    3000

static bool
wanted(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

static int
directory(char path[32])
{
	int fd;

	snprintf(path, 32, "bench-ledger-XXXXXX");
	if (mkdtemp(path) == NULL || (fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		die("directory");
	return fd;
}

/* `path` is absolute or relative to `home`: the index changes the working directory. */
static void
directory_remove(int home, int fd, const char *path)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
		unlinkat(fd, e->d_name, 0);
	unlinkat(home, path, AT_REMOVEDIR);
	if (d != NULL)
		closedir(d);
}

/* What a call leaves: a decision and its outcome, in turn. */
static void
record_fill(struct msg_record *r, char id[40], char call[40], uint32_t i)
{
	static const uint8_t digest[32] = { 7 };

	memset(r, 0, sizeof *r);
	snprintf(id, 40, "r-%032u", i);
	snprintf(call, 40, "c-%032u", i / 2);
	r->id = slice_of(id);
	r->type = slice_of(i % 2 ? "tool.invoked" : "authorization.checked");
	r->at = 1700000000000 + i;
	RECORD_TEXT(r, namespace, "default");
	RECORD_TEXT(r, authority, "human:op");
	RECORD_TEXT(r, owner, "human:op");
	RECORD_TEXT(r, operation, "op-00000000000000000000000000000001");
	RECORD_TEXT(r, trace, "t-00000000000000000000000000000001");
	RECORD_TEXT(r, runtime, "bench");
	RECORD_TEXT(r, actor, "agent:bench");
	RECORD_TEXT(r, purpose, "bench");
	RECORD_TEXT(r, call, call);
	RECORD_TEXT(r, callId, "call-00000000");
	RECORD_TEXT(r, tool, "files.read");
	RECORD_TEXT(r, grant, "docs");
	r->has_outcome = r->has_source = true;
	r->outcome = i % 2 ? record_outcome_succeeded : record_outcome_allowed;
	r->source = record_source_kernel;
	if (i % 2 == 0) {
		RECORD_TEXT(r, action, "read");
		RECORD_TEXT(r, resource, "workspace");
		r->has_digest = true;
		r->digest = (struct slice){ digest, sizeof digest };
	}
}

/* A journal of RECORDS records in one segment.  Returns its bytes. */
static size_t
journal_fill(int dir)
{
	struct buf out = { 0 };
	struct msg_record r = { 0 };
	uint8_t chain[JOURNAL_HASH] = { 0 }, zero[JOURNAL_HASH] = { 0 };
	char name[17], id[40], call[40];
	size_t bytes = 0;
	int fd;

	journal_name(name, 1);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		die("segment");
	r.id = slice_of("r-first");
	r.type = slice_of("segment.opened");
	r.has_segment = r.has_previousCount = r.has_previousHash = r.has_previousLength = true;
	r.segment = 1;
	r.previousHash = (struct slice){ zero, sizeof zero };
	for (uint32_t i = 0;; i++) {
		if (journal_entry(&out, chain, &r) < 0)
			die("record");
		if (i == RECORDS)
			break;
		record_fill(&r, id, call, i);
		if (out.n > 1 << 20) {
			bytes += out.n;
			send_buf(fd, &out);
		}
	}
	bytes += out.n;
	send_buf(fd, &out);
	fsync(fd);
	close(fd);
	buf_finish(&out);
	return bytes;
}

/* Seconds to index all of it into a fresh database. */
static double
index_seconds(int home, int journal)
{
	struct ledger l = { 0 };
	char path[32];
	int dir;
	uint64_t begun;
	double ret;

	if (fchdir(home) < 0)
		die("fchdir");
	dir = directory(path);
	begun = now_ns();
	if (ledger_init(&l, journal, dir, false) < 0)
		die("ledger");
	while (ledger_follow(&l, 4096) > 0)
		;
	ret = (double)(now_ns() - begun) / 1e9;
	if (l.reader.at.count != RECORDS + 1) {
		fprintf(stderr, "bench: %llu records indexed: %s\n",
		    (unsigned long long)l.reader.at.count, ledger_problem(&l));
		exit(1);
	}
	ledger_finish(&l);
	directory_remove(home, dir, path);
	return ret;
}

/* Seconds of one append and fdatasync of a record's size. */
static double
sync_seconds(int dir, size_t record, int n)
{
	static uint8_t bytes[8192];
	int fd = openat(dir, "rate", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	uint64_t begun = now_ns();

	if (fd < 0)
		die("file");
	for (int i = 0; i < n; i++) {
		write_all(fd, bytes, record);
		if (fdatasync(fd) < 0)
			die("fdatasync");
	}
	close(fd);
	unlinkat(dir, "rate", 0);
	return (double)(now_ns() - begun) / 1e9 / n;
}

static void
index_rate(int home, int journal, size_t bytes)
{
	struct series rate = { 0 }, share = { 0 };
	double per_record, per_sync;

	for (int pass = 0; pass < PASSES; pass++) {
		per_record = index_seconds(home, journal) / RECORDS;
		per_sync = sync_seconds(journal, bytes / RECORDS, 200);
		add(&rate, 1 / per_record, 100000);
		add(&share, per_record * 1e6, per_sync * 1e6);
	}
	print_series("T26", "rec/s", &rate, "records indexed, against 100 000 a second");
	print_series("T26s", "us", &share, "a record indexed, against an append and fdatasync");
}

/* Indexes again and again on the other CPU. */
static pid_t
indexer_start(int home, int journal)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		for (;;)
			index_seconds(home, journal);
	}
	return pid;
}

/* What an indexer that was killed has left. */
static void
leftovers_remove(int home)
{
	int dup = openat(home, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(dup);
	struct dirent *e;
	int fd;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, "bench-ledger-", 13) != 0)
			continue;
		fd = openat(home, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			directory_remove(home, fd, e->d_name);
	}
	if (d != NULL)
		closedir(d);
}

static void
call_path(int home, int journal)
{
	struct series s = { 0 };
	struct world w = { .detached = true };
	double busy, idle;
	pid_t indexer;
	char path[32];

	if (fchdir(home) < 0)
		die("fchdir");
	w.journal_dir = directory(path);
	world_open(&w);
	w.run->payload = 960;
	w.run->calls = CALLS;
	w.run->warm = CALLS / 10;
	w.run->flight = 1;
	for (int pass = 0; pass < CALL_PASSES; pass++) {
		world_turn(&w);
		idle = quantile(w.run->ns + w.run->warm, CALLS - CALLS / 10, .5) / 1000;
		indexer = indexer_start(home, journal);
		world_turn(&w);
		kill(indexer, SIGKILL);
		waitpid(indexer, NULL, 0);
		busy = quantile(w.run->ns + w.run->warm, CALLS - CALLS / 10, .5) / 1000;
		add(&s, busy, idle);
	}
	world_close(&w);
	print_series("T26c", "us", &s, "call, relaxed, while an index catches up on the other CPU");
}

int
main(int argc, char **argv)
{
	char path[32];
	int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), journal;
	size_t bytes;

	be_important();
	pin(0);
	journal = directory(path);
	bytes = journal_fill(journal);
	if (wanted(argc, argv, "T26"))
		index_rate(home, journal, bytes);
	if (wanted(argc, argv, "T26c"))
		call_path(home, journal);
	leftovers_remove(home);
	return 0;
}
