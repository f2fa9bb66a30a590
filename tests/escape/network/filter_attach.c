/*
 * Attach a program to a socket.
 * SO_ATTACH_FILTER is BPF where bpf() is forbidden: the spray of many an exploit.
 */
#include "tests/escape/escape.h"

#include <linux/filter.h>

ESCAPE(filter_attach)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0xffffffff);
	struct sock_fprog prog = { 1, &all };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return errno;
	return tried(setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)));
}
