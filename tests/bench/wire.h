/*
 * wire: frames and socket pairs, as the scripted ends of the benchmarks use them.
 */
#ifndef TESTS_BENCH_WIRE_H
#define TESTS_BENCH_WIRE_H

#include <fcntl.h>
#include <sys/socket.h>

#include "common/protocol.h"
#include "tests/bench/bench.h"

#define FIRST_ID 70000u /* message ids that always take five bytes */

/* A received frame lies behind its length word in `b`. */
static inline void
receive(int fd, struct buf *b)
{
	uint8_t head[4], *p;
	size_t n;

	read_all(fd, head, 4);
	n = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	b->n = 0;
	buf_add(b, head, 4);
	p = buf_room(b, n);
	if (p == NULL)
		die("memory");
	read_all(fd, p, n);
	b->n = n + 4;
}

static inline void
send_buf(int fd, struct buf *b)
{
	write_all(fd, b->p, b->n);
	b->n = 0;
}

static inline void
put_u32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static inline uint32_t
get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Bytes of the packed unsigned integer at `p`. */
static inline size_t
uint_width(const uint8_t *p)
{
	return *p < 0x80 ? 1 : *p == 0xcc ? 2 : *p == 0xcd ? 3 : 5;
}

static inline void
pair(int type, int fds[2], bool second_nonblocking)
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0 ||
	    (second_nonblocking && fcntl(fds[1], F_SETFL, O_NONBLOCK) < 0))
		die("socketpair");
}

#endif /* TESTS_BENCH_WIRE_H */
