/*
 * host: broker, ledger and gateway of one namespace: started, linked, watched, replaced, ended.
 *
 *   - a broker that dies takes its sessions' children with it; once all are reaped, a new one
 *     starts with a new segment, and the client gets a new link to it;
 *   - one that answers no heartbeat is killed like one that died;
 *   - too many deaths in a row end everything (125), as they would only repeat;
 *   - a ledger that dies is started again, ever more slowly, and linked to the broker anew;
 *   - a gateway that dies is started again, at once the first time, then ever more slowly, and
 *     nothing else is touched: its sockets stay open here, and what waits there waits on;
 *   - another configuration is in force once the broker has taken it; what began under the one
 *     before goes on under that;
 *   - the end: the broker settles, then its children are gone, then the ledger has read to the
 *     end, and the gateway has passed on what the broker said last; each is waited for so long,
 *     then killed.
 *
 * Reads nothing but control structs.  Never weaker: what cannot be confined is not started.
 */
#ifndef SUPERVISOR_HOST_H
#define SUPERVISOR_HOST_H

#include "common/control.h"
#include "supervisor/config.h"
#include "supervisor/pack.h"
#include "supervisor/state.h"

struct event_base;
struct host;
struct learn;
struct ucred;

struct host_options {
	const struct conf_namespace *config; /* the first; must live on */
	const char *config_file; /* for errors; NULL: there is none.  Must live on */
	struct pack_facts facts; /* now_ms is the start of this */
	struct rundir *run;
	struct learn *learn; /* of `caisson learn`, else NULL; must live on */
	/* A daemon's gateway: its listening sockets, which must live on until host_shutdown(),
	 * and what pack_gateway() made for it; none: there is no gateway. */
	const int *gateway_fds;
	size_t ngateway_fds;
	struct slice gateway_config;
	/* What host_gateway_config() brought: 0, the gateway goes by it; else an errno,
	 * negative, and it goes by the one before: it does not take it, and has said why;
	 * `index` is the listener at fault. */
	void (*on_gateway_config)(int error, uint32_t index, void *arg);
	int client_fd; /* of a private run: control link to the client; taken.  -1: a daemon */
	/* A daemon's: clients can be handed over from now on; false: no more, and those that
	 * were are gone.  NULL in a private run. */
	void (*on_clients)(bool served, void *arg);
	/* The first that was handed over, and not taken, is; one of `uid` is gone.  0, or
	 * -EPROTO if there was none. */
	int (*on_client_taken)(void *arg);
	int (*on_client_gone)(uid_t uid, void *arg);
	/* What host_reload() began: 0, it is in force; else an errno, negative, and nothing has
	 * changed: -EPIPE, the broker died; another, it does not take it, and has said why;
	 * then `row` and `index` say of which row, unless that is CONFIG_ROW_NONE. */
	void (*on_reloaded)(int error, enum config_row_kind row, uint32_t index,
	    const struct conf_namespace *c, void *arg);
	/* Everything is gone; `status`: 0, or 125 if nothing could be started (any more). */
	void (*on_done)(int status, void *arg);
	void *arg;
};

/*
 * Can a daemon that has its workspaces in the directory `dir_fd` enforce what `c`, which `file`
 * says, bounds them to?  0; or -EINVAL with a line in `err`.
 */
int host_check_quota(
    int dir_fd, const char *file, const struct conf_namespace *c, char err[CONF_ERROR_MAX]);
/* The same of a daemon that runs, before host_reload(). */
int host_check(const struct host *h, const char *file, const struct conf_namespace *c,
    char err[CONF_ERROR_MAX]);

/*
 * Starts ledger and broker.  `o` is copied, what it points to must live on.  Returns NULL if
 * memory is out; every other failure is told to the client and on_done().
 */
struct host *host_create(struct event_base *base, const struct host_options *o);
/* Only after on_done(). */
void host_destroy(struct host *h);

/* The client is gone, or wants us gone, or we were told to end.  Again is once. */
void host_shutdown(struct host *h);
/* At once: everything is killed, and on_done() follows when it is reaped. */
void host_kill(struct host *h);

/*
 * A daemon's: hands a configuration to the broker, of what could be begun with; on_reloaded()
 * follows.  Takes `c`, which was malloc'ed, on success; `timeout_ms` as in struct pack_facts.
 * Returns 0; -EAGAIN if there is no broker to take it, or another one is on its way; -ESHUTDOWN
 * at the end; -EBUSY if sessions live by as many as there may be; another negative errno.
 */
int host_reload(struct host *h, struct conf_namespace *c, uint64_t timeout_ms);
/* May host_reload() be called now? */
bool host_is_ready(const struct host *h);
/* The one in force. */
const struct conf_namespace *host_config(const struct host *h);
/* It is what it was, and what waits for a session is made anew. */
void host_refresh(struct host *h);

/*
 * A daemon's: limits and certificates for the gateway, as pack_gateway() made them for the same
 * listeners; on_gateway_config() follows.  0, also without a gateway, or -ENOMEM.
 */
int host_gateway_config(struct host *h, const struct buf *config);

/* A daemon's: hands a client to the broker.  Takes `fd`. */
void host_client(struct host *h, int fd, const struct ucred *peer);

#endif /* SUPERVISOR_HOST_H */
