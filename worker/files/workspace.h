/*
 * workspace: one operation of a client on the workspace of its session.
 *
 * What was decided is the whole workspace, which is the client's own: paths are arguments, and
 * are looked up beneath the root as every path here.  What a command has left there can be
 * anything: a link, FIFO or device is never opened, but can be deleted, or get another name.
 */
#ifndef WORKER_FILES_WORKSPACE_H
#define WORKER_FILES_WORKSPACE_H

#include "worker/files/files.h"

/* bytes of one read: with its envelope it fits RESULT_MAX */
#define WORKSPACE_READ_MAX (RESULT_MAX - 1024u)

/*
 * Serves one call of `tool`, a name of workspace.def, with packed `arguments`; `decided` must
 * hold no names.  As files_serve(), otherwise.
 */
enum files_code workspace_serve(struct files_root *root, struct slice tool,
    struct slice arguments, struct slice decided, struct files_reply *reply);

#endif /* WORKER_FILES_WORKSPACE_H */
