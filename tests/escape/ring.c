/* One io_uring of one entry, without its library. */
#include "tests/escape/escape.h"

#include <linux/io_uring.h>

static struct {
	int fd;
	char *sq, *cq;
	struct io_uring_sqe *sqes;
	struct io_uring_params p;
} ring;

int
ring_open(void)
{
	int prot = PROT_READ | PROT_WRITE;

	ring.fd = (int)syscall(SYS_io_uring_setup, 1, &ring.p);
	if (ring.fd < 0)
		return -1;
	ring.sq = mmap(
	    NULL, ring.p.sq_off.array + 4096, prot, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	ring.cq = mmap(
	    NULL, ring.p.cq_off.cqes + 4096, prot, MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
	ring.sqes = mmap(NULL, sizeof(*ring.sqes), prot, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	return ring.sq == MAP_FAILED || ring.cq == MAP_FAILED || ring.sqes == MAP_FAILED ? -1
											 : 0;
}

int
ring_do(const void *sqe, int *ret_result)
{
	unsigned *tail = (unsigned *)(void *)(ring.sq + ring.p.sq_off.tail);
	unsigned *array = (unsigned *)(void *)(ring.sq + ring.p.sq_off.array);
	unsigned *head = (unsigned *)(void *)(ring.cq + ring.p.cq_off.head);
	struct io_uring_cqe *cqes = (void *)(ring.cq + ring.p.cq_off.cqes);

	memcpy(ring.sqes, sqe, sizeof(*ring.sqes));
	array[*tail & (ring.p.sq_entries - 1)] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -1;
	*ret_result = cqes[*head & (ring.p.cq_entries - 1)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	errno = *ret_result < 0 ? -*ret_result : 0;
	return *ret_result < 0 ? -1 : 0;
}
