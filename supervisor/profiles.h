/*
 * profiles: the seccomp filters, as data.
 *
 * A profile is a default-deny list out of profiles.def, or one of the operator's derived
 * from it, compiled once by libseccomp and kept as BPF.  What is on no list goes to the
 * supervisor as a notification, which names the call and ends the chamber; it is never
 * continued.
 */
#ifndef SUPERVISOR_PROFILES_H
#define SUPERVISOR_PROFILES_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conf_mount;
struct conf_words;
struct profile_list;
struct profile_rule;

enum profile_network {
	NETWORK_OWN, /* a network namespace of its own, with nothing in it */
	/* One empty namespace for many chambers: only where nobody can make a socket. */
	NETWORK_SHARED,
};

struct profile {
	const char *name;
	bool filtered; /* false: the program loads a list of its own (broker, ledger) */
	bool minimal;  /* a root of /usr and /libexec only */
	bool libexec;  /* shows our own programs at /libexec */
	bool mdwe;     /* no memory that was writable becomes executable */
	enum profile_network network;
	uint32_t optional; /* of LAYERS_OPTIONAL, those that may be absent */
	/* Defaults of struct chamber's limits; UINT64_MAX: none. */
	uint64_t memory_bytes, tmp_bytes, file_bytes, cpu_percent, cpu_seconds;
	unsigned pids, open_files;
	/* Besides those of `base`; NULL or empty for a built-in one. */
	const struct conf_mount *mounts;
	size_t nmounts;
	const struct conf_words *env; /* NAME=VALUE, or NAME of a variable to hand on */
	const struct profile *base;   /* NULL: built in */
	struct profile_list *list;    /* this module's; NULL without a filter */
};

/* Of a runtime that names none. */
#define PROFILE_DEFAULT "interpreter"

/* The built-in profile of that name; NULL if there is none. */
const struct profile *profile_named(const char *name);
/* The built-in profiles one by one, from 0; NULL beyond the last. */
const struct profile *profile_builtin(size_t i);

/*
 * A profile like `base`, whose `own` rules (profiles_rules.h) come first.  `name` and `base`
 * are borrowed; what else sets it apart, the caller writes into `*ret` before anybody uses it.
 * Returns 0; -ENOMEM; -EINVAL with the rule at fault in `*ret_fault` and a sentence about it in
 * `*ret_text`; -E2BIG for a list that no filter holds.
 */
int profile_create(const char *name, const struct profile *base, const struct profile_rule *own,
    size_t n, struct profile **ret, size_t *ret_fault, const char **ret_text);
/* NULL is allowed.  Whatever profile_filter() gave for it is gone. */
void profile_destroy(struct profile *p);

/*
 * The filter of `p`, with the internet's sockets if `network`.  `*ret` belongs to
 * this module and lives as long as the profile, a built-in one's as long as the process.
 * Returns 0 and no instructions for a profile without a filter; -EINVAL for a list that
 * libseccomp does not understand (a bug of ours, or a libseccomp older than 2.5); -E2BIG
 * for one that the kernel would not load; another negative errno.
 */
int profile_filter(
    const struct profile *p, bool network, const struct sock_filter **ret, size_t *ret_len);

/* The rules of that filter, in no order; they live as it does.  Returns as profile_filter(). */
int profile_rules(
    const struct profile *p, bool network, const struct profile_rule **ret, size_t *ret_n);

/* Number of a system call of this architecture; -ENOENT for a name that libseccomp does not
 * know, -ENOSYS for one that only other architectures have. */
int profile_syscall_number(const char *name);

/* Name of a system call of `arch` (AUDIT_ARCH_*), "?" if it has none.  Valid until the next
 * call of this. */
const char *profile_syscall_name(uint32_t arch, uint32_t nr);

#endif /* SUPERVISOR_PROFILES_H */
