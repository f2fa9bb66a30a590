/*
 * runtime_dir: where a daemon's local socket lies.
 */
#ifndef COMMON_RUNTIME_DIR_H
#define COMMON_RUNTIME_DIR_H

/*
 * As root /run/caisson/NAMESPACE.sock, else $XDG_RUNTIME_DIR/caisson/NAMESPACE.sock; to be
 * freed.
 * NULL with errno set: ENOENT where XDG_RUNTIME_DIR is not set (or not absolute).
 */
char *runtime_socket_default(const char *namespace);

#endif /* COMMON_RUNTIME_DIR_H */
