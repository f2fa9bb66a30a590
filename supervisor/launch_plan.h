/*
 * launch_plan: from struct chamber to the plan that the launcher carries out.
 *
 * Decides what a chamber's root looks like; the launcher only does what stands in the
 * plan.  What does not change while the process lives (which of /bin, /lib are links,
 * which files of /etc there are) is looked up once.
 */
#ifndef SUPERVISOR_LAUNCH_PLAN_H
#define SUPERVISOR_LAUNCH_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "supervisor/launch.h"

struct cgroup_entry;
struct plan_header;

/*
 * Makes the plan of `c`, which enters `group`: what that bounds is not bounded by an rlimit,
 * too, which would leave no evidence.  Returns a memfd whose size is sealed and the plan's
 * shared header in `*ret_page` (`*ret_size` bytes, to be unmapped), or a negative
 * errno with the layer in `*ret_layer`: LAYER_PLAN for arguments that make no plan,
 * LAYER_SECCOMP, LAYER_UID.
 */
int launch_plan_create(const struct chamber *c, const struct cgroup_entry *group,
    struct plan_header **ret_page, size_t *ret_size, enum layer *ret_layer);

/*
 * Makes the plan of a chamber that will stand by: of one with these of PLAN_KIND, in `group`.
 * As above; the layer of an error is LAYER_PLAN.
 */
int launch_plan_stand(uint32_t flags, const struct cgroup_entry *group,
    struct plan_header **ret_page, size_t *ret_size);

/*
 * Would these `n` mounts of a chamber of `profile` be refused for what they grant together?
 * Looks at names alone.  -EACCES: what is shown writable holds the system's
 * programs, or is the directory of our own; `*ret_which` of `v` it is, or `n`.  As
 * views_settle() otherwise.
 */
int launch_plan_check(const struct profile *profile, const struct chamber_mount *v, size_t n,
    size_t *ret_which);

/*
 * The directory of our own programs: beside this one, as built (../libexec) or as installed
 * (../libexec/caisson), wherever that was moved to; else LIBEXECDIR.  Nothing in the
 * environment changes it.  Valid for the process.
 */
const char *launch_libexec(void);

#endif /* SUPERVISOR_LAUNCH_PLAN_H */
