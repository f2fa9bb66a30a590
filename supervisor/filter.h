/*
 * filter: the seccomp filter of a list of rules.
 *
 * Small rather than quick: a chamber's filter is compiled by the kernel at each start, at a price
 * for each instruction, while calls that it allows whatever their arguments never run it again
 * (the kernel keeps a bit for each).  Numbers are told apart by ranges.  No I/O, no state.
 */
#ifndef SUPERVISOR_FILTER_H
#define SUPERVISOR_FILTER_H

#include <stddef.h>
#include <stdint.h>

#include <linux/filter.h>

#include "supervisor/profiles_rules.h"

/*
 * What `n` rules mean for calls of `arch` (AUDIT_ARCH_...): the action of the first rule of a
 * call whose conditions hold.  Everything else, other architectures and x32 included, goes to the
 * listener.  The caller frees `*ret`.  Returns 0, -ENOMEM, or -E2BIG where the kernel would
 * take no such filter.
 */
int filter_compile(uint32_t arch, const struct profile_rule *rules, size_t n,
    struct sock_filter **ret, size_t *ret_len);

#endif /* SUPERVISOR_FILTER_H */
