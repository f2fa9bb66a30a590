/*
 * ground: what chambers stand on and none of them can change, made once and held here.
 *
 * The first launch that needs one of these makes it (worker/ground.c) and hands its
 * descriptor up; those that follow enter it.  Without root a user namespace owns the other
 * two and is the parent of every chamber's, so that no chamber has power over them.  A
 * root is a mount namespace that looks as a plan says, but for what is private to each
 * chamber.  It serves a plan only while every source is the very file or directory that it
 * was, and no mount of the host has changed since.
 */
#ifndef SUPERVISOR_GROUND_H
#define SUPERVISOR_GROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/plan.h"

#define GROUND_FDS_MAX 4

/* What a root looks like and what it is made of. */
struct ground_root;

/*
 * Sets PLAN_HAS_..., PLAN_KEEP_ROOT and root_id in `h`, a whole plan, for what it wants, and
 * the descriptors that go with it in `ret_fds`, which stay this module's.  Returns their
 * number.  `*ret_root` is what the launch would make, or NULL: for ground_keep().
 */
unsigned ground_find(struct plan_header *h, int ret_fds[GROUND_FDS_MAX],
    struct ground_root **ret_root);

/* Is that root still held, and would serve? */
bool ground_has_root(uint32_t id);

/*
 * As ground_find(), for a plan without steps that wants that very root.  Returns the number of
 * descriptors, 0 if it is not held any more.
 */
unsigned ground_again(struct plan_header *h, uint32_t root_id, int ret_fds[GROUND_FDS_MAX]);

/*
 * Takes what a launch has made, and with STAGE_ROOT `*root`; of two of a kind the first stays.
 * Returns 0; -EPROTO for a descriptor that is no namespace of the kind; another negative errno.
 */
int ground_keep(enum launch_stage stage, int fd, struct ground_root **root);

/* Accepts NULL. */
void ground_root_drop(struct ground_root *root);

#endif /* SUPERVISOR_GROUND_H */
