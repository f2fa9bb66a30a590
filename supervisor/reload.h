/*
 * reload: what SIGHUP does to a daemon.
 *
 * The file is read and checked as at a start.  What is wrong with it is said with file, line
 * and key, and nothing has changed.  Else it is compared with what is in force, key by key, and
 * handed to the broker (host.h), which may refuse it, too: then, likewise, nothing has changed.
 * A key that takes effect at a start only keeps its value, and is named.  One that says who the
 * namespace is refuses the whole.
 *
 * Certificates and keys of the gateway are read again in any case, and its limits follow the
 * broker's part; where the gateway does not take them, it goes on as before, and that is said.
 *
 * One is on its way at a time.  Whoever asks meanwhile, or while there is no broker, is
 * remembered once, and the file read again then.
 */
#ifndef SUPERVISOR_RELOAD_H
#define SUPERVISOR_RELOAD_H

#include "common/control.h"
#include "common/options.h"
#include "supervisor/config.h"

struct host;
struct reload;

/* `o` and the host must live on.  NULL with errno set. */
struct reload *reload_create(const struct options *o, struct host *const *host);
void reload_destroy(struct reload *r);

/* SIGHUP came. */
void reload_ask(struct reload *r);
/* A broker can be asked. */
void reload_on_ready(struct reload *r);
/* As host_options.on_reloaded(). */
void reload_on_answer(struct reload *r, int error, enum config_row_kind row, uint32_t index,
    const struct conf_namespace *c);

/* As host_options.on_gateway_config(). */
void reload_on_gateway(struct reload *r, int error, uint32_t index);

#endif /* SUPERVISOR_RELOAD_H */
