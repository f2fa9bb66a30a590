/*
 * Make a BPF map.
 * The verifier was the way to the kernel in CVE-2020-8835, CVE-2021-3490 and CVE-2022-23222.
 */
#include "tests/escape/escape.h"

#include <linux/bpf.h>

ESCAPE(bpf_map)
{
	union bpf_attr a = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1
	};

	return tried(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof(a)));
}
