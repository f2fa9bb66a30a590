/*
 * launch_layers: how far each layer of a chamber holds.
 *
 * The launcher reports what it applied; what the supervisor knows by itself is added here.
 */
#ifndef SUPERVISOR_LAUNCH_LAYERS_H
#define SUPERVISOR_LAUNCH_LAYERS_H

#include "supervisor/launch.h"

/*
 * Fills in the layers that are not the launcher's.  Returns 0; or a negative errno, and in
 * `*ret_layer` which layer it is that the chamber's profile requires and that is absent.
 */
int launch_layers_own(const struct chamber *c, struct launch_layers *ret, enum layer *ret_layer);

/* Takes over what the launcher reported; what is not its own is left alone. */
void launch_layers_report(struct launch_layers *l, const int16_t reported[LAYER_MAX]);

/* Does the kernel say how a process ended that is gone?  0 or a negative errno. */
int launch_layers_probe_exit_facts(void);

#endif /* SUPERVISOR_LAUNCH_LAYERS_H */
