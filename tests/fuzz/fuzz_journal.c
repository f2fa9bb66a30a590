/*
 * fuzz_journal: the record as a subverted broker, a failing disk or a tamperer leaves it.
 *
 * Input: a byte that says what follows, then
 *	0	bytes of an entry, as they are, for journal_next();
 *	1	bytes of segment 1, as they are, for reader, ledger and verify;
 *	2	u16 big-endian lengths and packed records, which are sealed into a segment that
 *		chains, so that hostile records reach the index.
 * Properties: an entry that reads can be sealed again to the same bytes; the reader ends or
 * names damage; what is indexed can be asked for, page by page; verify agrees with the reader.
 */
#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/records.h"
#include "common/walk.h"
#include "ledger/ledger.h"
#include "ledger/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int journal_fd = -1;
static char dir[64];

static void
remove_dir(void)
{
	unlinkat(journal_fd, "journal.00000001", 0);
	rmdir(dir);
}

static void
make_dir(void)
{
	const char *at = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	if (journal_fd >= 0)
		return;
	snprintf(dir, sizeof(dir), "%s/caisson-fuzz-XXXXXX", at);
	if (!mkdtemp(dir))
		abort();
	journal_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (journal_fd < 0)
		abort();
	atexit(remove_dir);
}

static void
put_segment(const uint8_t *p, size_t n)
{
	int fd = openat(journal_fd, "journal.00000001", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, p, n) != (ssize_t)n || ftruncate(fd, (off_t)n) < 0)
		abort();
	close(fd);
}

static void
one_entry(const uint8_t *p, size_t n)
{
	uint8_t chain[JOURNAL_HASH] = { 0 }, again[JOURNAL_HASH] = { 0 };
	struct msg_record r;
	struct buf sealed = { 0 }, packed = { 0 };
	struct fault fault;
	size_t len = 0;

	switch (journal_next(p, n, chain, &r, &len, &fault)) {
	case JOURNAL_READ_OK:
		assert(len <= n && len > JOURNAL_HEAD && len <= JOURNAL_ENTRY_MAX);
		assert(journal_seal(&sealed, again,
			   (struct slice){ p + JOURNAL_HEAD, len - JOURNAL_HEAD }) == 0);
		assert(sealed.n == len && memcmp(sealed.p, p, len) == 0);
		assert(memcmp(chain, again, sizeof(chain)) == 0);
		assert(protocol_pack(&packed, MSG_record, &r) == 0);
		break;
	case JOURNAL_READ_BAD: assert(fault.rule && *fault.rule); break;
	default: break;
	}
	buf_finish(&sealed);
	buf_finish(&packed);
}

static void
ask_everything(struct ledger *l)
{
	struct msg_audit_read ask = { .limit = 3 };
	struct msg_audit_read_reply got = { 0 };
	struct msg_state_load_reply state;
	struct index_state lists;
	struct slice rest;
	struct fault fault;
	const char *why;
	uint64_t seen = 0, cursor = 0;

	do {
		struct buf bytes = { 0 };

		assert(ledger_read(l, &ask, &got, &bytes, &why) == 0);
		assert(walk_value(got.records.p, got.records.n, &fault) == 0);
		rest = got.records;
		seen += value_next(&rest).count;
		ask.cursor = got.next;
		buf_finish(&bytes);
	} while (got.next != 0);
	assert(seen == l->reader.at.count);
	do {
		struct buf bytes = { 0 };

		memset(&lists, 0, sizeof(lists));
		if (ledger_state(l, cursor, &state, &lists, &bytes, &why) < 0) {
			assert(*why);
			state.next = 0;
		} else {
			assert(walk_value(state.operations.p, state.operations.n, &fault) == 0);
			assert(walk_value(state.grants.p, state.grants.n, &fault) == 0);
			assert(walk_value(state.revocations.p, state.revocations.n, &fault) == 0);
			assert(walk_value(state.uses.p, state.uses.n, &fault) == 0);
			assert(state.next == 0 || state.next > cursor);
		}
		cursor = state.next;
		index_state_finish(&lists);
		buf_finish(&bytes);
	} while (cursor != 0);
}

static void
whole_segment(const uint8_t *p, size_t n)
{
	struct ledger l;
	struct verify v;
	bool damaged;
	uint64_t count;

	make_dir();
	put_segment(p, n);
	if (ledger_init(&l, journal_fd, -1, true) < 0)
		abort();
	while (ledger_follow(&l, 50) > 0)
		;
	damaged = l.reader.damaged;
	count = l.reader.at.count;
	ask_everything(&l);
	if (verify_start(&v, journal_fd, -1, l.index, NULL) < 0)
		abort();
	while (verify_step(&v, 50) == 0)
		;
	assert(v.valid == !damaged && v.reader.at.count == count);
	assert(v.valid || verify_text(&v)[0] != '\0');
	verify_finish(&v);
	ledger_finish(&l);
}

static void
sealed_records(const uint8_t *p, size_t n)
{
	uint8_t chain[JOURNAL_HASH] = { 0 }, zero[JOURNAL_HASH] = { 0 };
	struct buf out = { 0 };
	struct msg_record first = {
		.id = slice_of("r"),
		.type = slice_of(record_name(RECORD_segment_opened)),
		.has_segment = true,
		.segment = 1,
		.has_previousCount = true,
		.has_previousHash = true,
		.previousHash = { zero, sizeof(zero) },
		.has_previousLength = true,
	};
	size_t len;

	if (journal_entry(&out, chain, &first) < 0)
		abort();
	while (n > 2) {
		len = (size_t)p[0] << 8 | p[1];
		if (len > n - 2)
			len = n - 2;
		journal_seal(&out, chain, (struct slice){ p + 2, len });
		p += 2 + len;
		n -= 2 + len;
	}
	whole_segment(out.p, out.n);
	buf_finish(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 3) {
	case 0: one_entry(data + 1, size - 1); break;
	case 1: whole_segment(data + 1, size - 1); break;
	default: sealed_records(data + 1, size - 1);
	}
	return 0;
}
