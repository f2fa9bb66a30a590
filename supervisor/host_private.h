/*
 * host_private: what the files host*.c share.
 *
 *   host.c         making it, deaths, the end
 *   host_start.c   starting a broker or ledger in its chamber
 *   host_orders.c  what a broker asks for
 *   host_gateway.c the gateway: started again as long as it dies, linked, told of the end
 *   host_list.c    what lives here, for who asks
 *   host_reload.c  the configuration, and one that follows it
 *   host_workspace.c  the directories of sessions
 */
#ifndef SUPERVISOR_HOST_PRIVATE_H
#define SUPERVISOR_HOST_PRIVATE_H

#include "supervisor/children.h"
#include "supervisor/deaths.h"
#include "supervisor/host.h"
#include "supervisor/launch.h"
#include "supervisor/peer.h"
#include "supervisor/sockets.h"
#include "supervisor/standby.h"
#include "supervisor/uid.h"
#include "supervisor/workspace.h"

#define FALSE_STARTS_MAX  5   /* deaths of ledgers before any broker was ready: 3 s */
#define BACK_OFF_FIRST_MS 100 /* before a ledger is started again */

enum service_id { BROKER, LEDGER, GATEWAY, SERVICES };

/* One of the processes of ours. */
struct service {
	struct host *host;
	enum service_id id;
	struct launch *launch; /* NULL: not running */
	struct peer *peer;
	struct uid_claim uid;
	unsigned unanswered; /* pings; a clock of ours that stood still adds none */
	unsigned unready;    /* pings sent before it said that it is ready */
	bool started;	     /* the exec happened */
	uint64_t since_ms;   /* wall clock: when it was started */
};

/* What there is of the gateway besides its process. */
struct gateway {
	struct buf config;  /* what it goes by, or begins with */
	struct buf offered; /* what it shall go by, empty: nothing else */
	/* Configurations that were offered so far; of them, answered; when it was started. */
	uint64_t generation, answered, started_with;
	bool ready;  /* this one's CONTROL_READY has come */
	bool begun;  /* that of any has */
	bool spoken; /* one was ready, or died: nobody waits for the first word */
	struct deaths deaths;
	unsigned again_ms; /* before it is started again */
	struct event *again;
	uint64_t dials, dials_at_ms; /* links it may ask for now; since when they are counted */
};

enum host_stage {
	STAGE_RUNNING,
	STAGE_SETTLING, /* the broker was told to end, or is being killed */
	STAGE_CLOSING,	/* the ledger reads to the end */
	STAGE_OVER,
};

struct host {
	struct event_base *base;
	struct host_options o;
	struct peer *client;
	struct control client_facts; /* uid, gid, pid of the client, as the kernel gave them */
	struct service services[SERVICES];
	struct children *children;
	struct workspaces *workspaces; /* a daemon's, else NULL */
	enum host_stage stage;
	int status;
	bool ready;			    /* this broker's CONTROL_READY has come */
	bool begun;			    /* that of any broker has */
	bool serving;			    /* on_clients(true) was called */
	struct deaths deaths;		    /* of brokers */
	unsigned false_starts; /* of ledgers */
	unsigned back_off_ms; /* of the ledger */
	const struct conf_namespace *config; /* in force */
	struct conf_namespace *offered;	     /* to the broker; the children's; else NULL */
	uint64_t offered_timeout_ms;
	uint64_t generations; /* offered so far, and the first */
	struct event *ping, *deadline, *ledger_again;
	struct gateway gateway;
};

extern const char *const service_names[SERVICES];

/* Nothing can be started (any more): tells the client, and ends everything with 125. */
void host_fail(struct host *h, enum layer layer, int error);

/* host_start.c: each starts one service and links it with what is there already. */
void host_start_broker(struct host *h);
void host_start_ledger(struct host *h);
void service_drop_peer(struct service *s);
/* Says, once, why a service cannot be started. */
void service_explain(const struct service *s, enum layer layer, int error);
extern const struct launch_handler service_handler; /* host.c */
/*
 * `more` are its descriptors from RUNTIME_FD_LINK + 1; they stay the caller's.  Returns 0, or a
 * negative errno with the layer at fault.
 */
int service_start(struct service *s, const struct chamber_mount *mounts, size_t nmounts,
    const int *more, size_t nmore, enum layer *ret_layer);

/* A daemon's clients can be served from now on, or no more. */
void host_serve(struct host *h, bool served);
/* They can, if the broker is ready and the gateway, where there is one, has come to
 * something. */
void host_serve_when_ready(struct host *h);

/* host_orders.c: what comes over the services' control links. */
extern const struct peer_handler service_peers[SERVICES];
void host_connect_ledger(struct host *h);
/* `error` is below 0 for an order that no sound one gives: it is killed. */
void service_check_order(struct service *s, const struct control *c, int error);

/* host_gateway.c */
bool gateway_is_wanted(const struct host *h);
/* 0 or -ENOMEM; gateway_finish() either way. */
int gateway_init(struct host *h);
void gateway_finish(struct host *h);
/* If one is wanted, and none runs. */
void host_start_gateway(struct host *h);
void gateway_gone(struct host *h);
void gateway_shutdown(struct host *h);
void gateway_on_control(const struct control *c, void *arg);

/* host_reload.c */
int host_config_taken(struct host *h, const struct control *c);
int host_config_over(struct host *h, const struct control *c);
/* There is no broker: nobody names an older one, or answers. */
void host_config_alone(struct host *h);

/* host_workspace.c.  0 or a negative errno, with a line in the log. */
int host_open_workspaces(struct host *h);
/* As many sessions as `c` lets be open, from now on. */
void host_limit_sessions(struct host *h, const struct conf_namespace *c);
int host_workspace(struct host *h, const struct control *c);
int host_workspace_drop(struct host *h, const struct control *c);

/* host.c: takes the next step, if there is one: the last thing its caller does. */
void host_go_on(struct host *h);

/* host_list.c: answers CONTROL_LIST. */
int host_list(struct host *h);

#endif /* SUPERVISOR_HOST_PRIVATE_H */
