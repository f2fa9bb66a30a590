/*
 * floor: what a brokered call is measured against: three processes that pass the same
 * bytes through socketpairs and look at none of them.
 */
#ifndef TESTS_BENCH_FLOOR_H
#define TESTS_BENCH_FLOOR_H

#include <sys/epoll.h>

#include "tests/bench/world.h"

struct floor {
	struct run *run; /* frame sizes in, figures out */
	int relay_cpu, ends_cpu;
	int file_fd; /* the relay appends `record` bytes and syncs before it passes a call on; -1: not */
	size_t record;
	bool write_each; /* with calls in flight: one write a message, not one a wake-up */
};

/* ---- one call in flight: blocking reads and writes --------------------------------------- */

static _Noreturn void
floor_relay(const struct floor *f, int worker, int provider)
{
	static uint8_t in[1 << 20];
	const struct run *run = f->run;

	for (;;) {
		read_all(worker, in, run->invoke);
		if (f->file_fd >= 0) {
			write_all(f->file_fd, in, f->record);
			if (fdatasync(f->file_fd) < 0)
				die("fdatasync");
		}
		write_all(provider, in, run->call);
		read_all(provider, in, run->result);
		write_all(worker, in, run->reply);
	}
}

static _Noreturn void
floor_provider(const struct floor *f, int fd)
{
	static uint8_t buf[1 << 20];

	for (;;) {
		read_all(fd, buf, f->run->call);
		write_all(fd, buf, f->run->result);
	}
}

static _Noreturn void
floor_worker(const struct floor *f, int fd)
{
	static uint8_t buf[1 << 20];
	struct run *run = f->run;
	uint64_t begun;

	for (uint32_t n = 0; n < run->calls; n++) {
		begun = now_ns();
		write_all(fd, buf, run->invoke);
		read_all(fd, buf, run->reply);
		run->ns[n] = (uint32_t)(now_ns() - begun);
	}
	_exit(0);
}

/* ---- many in flight: epoll, whole frames, an out-buffer for each side --------------------- */

struct floor_end {
	int fd;
	uint8_t in[1 << 20];
	size_t held;
	struct buf out;
};

static void
floor_pass(struct floor_end *from, struct floor_end *to, size_t size, bool write_each)
{
	size_t at, n;
	ssize_t r = read(from->fd, from->in + from->held, sizeof from->in - from->held);

	if (r <= 0)
		_exit(0);
	from->held += (size_t)r;
	for (at = 0; from->held - at >= 4; at += n) {
		n = 4 + get_u32(from->in + at);
		if (from->held - at < n)
			break;
		put_u32(from->in + at, (uint32_t)size - 4);
		buf_add(&to->out, from->in + at, n < size ? n : size);
		if (n < size)
			buf_add(&to->out, from->in, size - n);
		if (write_each)
			send_buf(to->fd, &to->out);
	}
	if (to->out.n > 0)
		send_buf(to->fd, &to->out);
	memmove(from->in, from->in + at, from->held - at);
	from->held -= at;
}

static _Noreturn void
floor_epoll_relay(const struct floor *f, int worker, int provider)
{
	static struct floor_end end[2];
	struct epoll_event ev[2] = { { .events = EPOLLIN, .data.u32 = 0 },
		{ .events = EPOLLIN, .data.u32 = 1 } };
	int ep = epoll_create1(EPOLL_CLOEXEC), n;

	end[0].fd = worker;
	end[1].fd = provider;
	if (epoll_ctl(ep, EPOLL_CTL_ADD, worker, &ev[0]) < 0 ||
	    epoll_ctl(ep, EPOLL_CTL_ADD, provider, &ev[1]) < 0)
		die("epoll");
	for (;;) {
		n = epoll_wait(ep, ev, 2, -1);
		for (int i = 0; i < n; i++)
			if (ev[i].data.u32 == 0)
				floor_pass(&end[0], &end[1], f->run->call, f->write_each);
			else
				floor_pass(&end[1], &end[0], f->run->reply, f->write_each);
	}
}

static _Noreturn void
floor_echo(const struct floor *f, int fd)
{
	static struct floor_end end;

	end.fd = fd;
	for (;;)
		floor_pass(&end, &end, f->run->result, f->write_each);
}

static void
floor_in_flight(const struct floor *f, int fd)
{
	static uint8_t frame[1 << 20], in[1 << 20];
	struct run *run = f->run;
	struct buf out = { 0 };
	uint32_t sent = 0, got = 0, due = run->flight;
	size_t held = 0, at;
	uint64_t start = 0;
	ssize_t r;

	put_u32(frame, run->invoke - 4);
	while (got < run->calls) {
		for (; due > 0 && sent < run->calls; due--, sent++) {
			buf_add(&out, frame, run->invoke);
			if (f->write_each)
				send_buf(fd, &out);
		}
		due = 0;
		if (out.n > 0)
			send_buf(fd, &out);
		r = read(fd, in + held, sizeof in - held);
		if (r <= 0)
			_exit(0);
		held += (size_t)r;
		for (at = 0; held - at >= 4 && held - at >= 4 + get_u32(in + at);
		    at += 4 + get_u32(in + at)) {
			if (got++ == run->warm)
				start = now_ns();
			due++;
		}
		memmove(in, in + at, held - at);
		held -= at;
	}
	run->total_ns = now_ns() - start;
	_exit(0);
}

/* ---- one pass ----------------------------------------------------------------------------- */

static pid_t
floor_fork(int cpu)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(cpu);
	}
	return pid;
}

/* Runs run->calls calls; their figures are in `run` afterwards. */
static void
floor_run(const struct floor *f)
{
	bool many = f->run->flight > 1;
	int up[2], down[2];
	pid_t relay, provider, worker;

	pair(SOCK_STREAM, up, false);
	pair(SOCK_STREAM, down, false);
	relay = floor_fork(f->relay_cpu);
	if (relay == 0)
		many ? floor_epoll_relay(f, up[1], down[0]) : floor_relay(f, up[1], down[0]);
	provider = floor_fork(f->ends_cpu);
	if (provider == 0)
		many ? floor_echo(f, down[1]) : floor_provider(f, down[1]);
	worker = floor_fork(f->ends_cpu);
	if (worker == 0)
		many ? floor_in_flight(f, up[0]) : floor_worker(f, up[0]);
	waitpid(worker, NULL, 0);
	kill(relay, SIGKILL);
	kill(provider, SIGKILL);
	waitpid(relay, NULL, 0);
	waitpid(provider, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(up[i]);
		close(down[i]);
	}
}

#endif /* TESTS_BENCH_FLOOR_H */
