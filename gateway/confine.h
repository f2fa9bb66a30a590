/*
 * confine: the gateway's own filter, before the first byte of anybody is read.  The list is
 * syscalls.def; anything else kills the process.  Landlock, where the kernel has it, leaves no
 * file beneath it.
 */
#ifndef GATEWAY_CONFINE_H
#define GATEWAY_CONFINE_H

/* Returns 0, or a negative errno with `*ret_what` set: the layer.  The caller must not go on.
 * */
int gateway_confine(const char **ret_what);

#endif /* GATEWAY_CONFINE_H */
