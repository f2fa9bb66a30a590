#include "worker/files/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GETDENTS_BYTES (32u << 10)

/* A max-heap: its first is the first to go when a smaller name comes.  strcmp() compares
 * unsigned bytes, and no name holds a NUL. */
static void
sift_down(struct name *heap, size_t n)
{
	struct name moved = heap[0];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < n) {
		if (child + 1 < n && strcmp(heap[child + 1].text, heap[child].text) > 0)
			child++;
		if (strcmp(heap[child].text, moved.text) <= 0)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
}

static void
sift_up(struct name *heap, size_t at)
{
	struct name moved = heap[at];
	size_t parent;

	for (; at > 0; at = parent) {
		parent = (at - 1) / 2;
		if (strcmp(heap[parent].text, moved.text) >= 0)
			break;
		heap[at] = heap[parent];
	}
	heap[at] = moved;
}

/* In place: qsort() would take memory, and ask the system how much there is. */
static void
sort_heap(struct name *heap, size_t n)
{
	struct name largest;

	while (n > 1) {
		largest = heap[0];
		heap[0] = heap[--n];
		sift_down(heap, n);
		heap[n] = largest;
	}
}

static void
keep(struct names *names, size_t limit, const struct dirent64 *d, size_t len)
{
	bool full = names->n == limit;
	struct name *slot = full ? names->name : &names->name[names->n];

	names->more = names->more || full;
	if (full && strcmp(d->d_name, slot->text) >= 0)
		return;
	slot->type = d->d_type;
	slot->len = (uint8_t)len;
	memcpy(slot->text, d->d_name, len + 1);
	if (full)
		sift_down(names->name, limit);
	else
		sift_up(names->name, names->n++);
}

static void
look_at(struct names *names, const char *after, size_t limit, const struct dirent64 *d)
{
	size_t len = strlen(d->d_name);
	const uint8_t *p = (const uint8_t *)d->d_name;

	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return;
	names->scanned++;
	if (segments_is_temp(p, len))
		return;
	if (!segments_is_name(p, len))
		names->unlisted++;
	else if (after == NULL || strcmp(d->d_name, after) > 0)
		keep(names, limit, d, len);
}

static int
scan(int fd, const char *after, size_t limit, struct names *names, char *block)
{
	const struct dirent64 *d;
	ssize_t got, at;

	while ((got = getdents64(fd, block, GETDENTS_BYTES)) > 0) {
		for (at = 0; at < got; at += d->d_reclen) {
			d = (const struct dirent64 *)(const void *)(block + at);
			look_at(names, after, limit, d);
		}
		if (names->scanned > NAMES_SCAN_MAX)
			return -E2BIG;
	}
	return got < 0 ? -errno : 0;
}

/* Not every file system tells the type with the name. */
static void
learn_types(int fd, struct names *names)
{
	struct stat st;
	size_t i;

	for (i = 0; i < names->n; i++)
		if (names->name[i].type == DT_UNKNOWN &&
		    fstatat(fd, names->name[i].text, &st, AT_SYMLINK_NOFOLLOW) == 0)
			names->name[i].type = IFTODT(st.st_mode);
}

int
names_scan(int fd, const char *after, size_t limit, struct names *ret)
{
	struct names names = { 0 };
	struct name *smaller;
	char *block = malloc(GETDENTS_BYTES);
	int e = -ENOMEM;

	names.name = calloc(limit, sizeof(*names.name));
	if (block != NULL && names.name != NULL)
		e = scan(fd, after, limit, &names, block);
	free(block);
	if (e < 0) {
		names_finish(&names);
		return e;
	}
	sort_heap(names.name, names.n);
	learn_types(fd, &names);
	smaller = realloc(names.name, (names.n + 1) * sizeof(*names.name));
	if (smaller != NULL)
		names.name = smaller;
	*ret = names;
	return 0;
}

void
names_finish(struct names *n)
{
	free(n->name);
	n->name = NULL;
	n->n = 0;
}
