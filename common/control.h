/*
 * control: what travels on control links: fixed-size structs, and descriptors.
 *
 * A control link is an AF_UNIX SOCK_SEQPACKET pair between the supervisor and one of its
 * own (broker, ledger, client).  Both ends run on one machine from one build, so a
 * struct travels as it is.  The supervisor never unpacks a frame: this is all it reads.
 * Every number that arrives is checked by the receiver against what it asked for.
 */
#ifndef COMMON_CONTROL_H
#define COMMON_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CONTROL_FDS_MAX 4

enum control_verb {
	/* supervisor -> broker */
	/* fd: a new journal segment, write-only, append-only; index: its number; count: bytes
	 * reserved */
	CONTROL_SEGMENT = 1,
	CONTROL_LEDGER, /* fd: link to the ledger */
	/* fd: link to a local client; uid, gid, pid as the kernel gave them;
	 * flags: CONTROL_FROM_... */
	CONTROL_CLIENT,
	/* session, kind, index; fds: link (of a command: its stdin's write end), stdout,
	 * stderr: see enum child_kind */
	CONTROL_LINK,
	CONTROL_STARTED, /* session, kind, index: the exec happened */
	/* session, kind, index, layer, error: not born; count: of LAYER_DEATHS, how many */
	CONTROL_REFUSED,
	CONTROL_EXIT, /* session, kind, index, exit: gone, and reaped */
	CONTROL_PING, /* answer with CONTROL_PONG, or be killed */
	/* settle what is open, then end; count: to the gateway, ms that the broker has for
	 * it */
	CONTROL_SHUTDOWN,
	CONTROL_NO_SEGMENT, /* error: errno: the segment asked for cannot be made */
	/* fd: sealed memfd of process.row frames; none, and error, if it cannot be made */
	CONTROL_PROCESSES,
	/* fd: sealed memfd of a whole configuration, generation: its number.  One at a time:
	 * answered with CONTROL_CONFIG_TAKEN */
	CONTROL_CONFIG,
	/* workspace, error: 0, CONTROL_WORKSPACE made it; else an errno, and there is none */
	CONTROL_WORKSPACE_MADE,
	/* workspace, error: 0, CONTROL_WORKSPACE_DROP removed it; else what is left of it stays
	 * until the next start */
	CONTROL_WORKSPACE_GONE,
	/* workspace: one that lay there when this broker became ready; it drops what is
	 * nobody's */
	CONTROL_WORKSPACE_FOUND,

	/* broker -> supervisor */
	CONTROL_READY = 32, /* the state has arrived whole; links may come */
	CONTROL_PONG,
	CONTROL_SPAWN, /* session, kind, index: make this child; flags: CONTROL_WITH_INPUT */
	CONTROL_KILL, /* session, kind, index, cause: kill the whole tree, now */
	/* session, kind, index, error: this signal number, to the command's process */
	CONTROL_SIGNAL,
	CONTROL_MORE, /* the next segment, please; count: bytes to reserve */
	CONTROL_SETTLED, /* after CONTROL_SHUTDOWN: nothing is open */
	CONTROL_CLIENT_GONE, /* uid: one that came with CONTROL_FROM_SOCKET has ended */
	/* the first of those that came with CONTROL_FROM_SOCKET, and were not taken yet, is */
	CONTROL_CLIENT_TAKEN,
	CONTROL_LIST, /* CONTROL_PROCESSES, please */
	/* generation, error: 0, it decides from now on, on record; else an errno, and nothing
	 * has changed.  kind: enum config_row_kind and index: the row that is at fault.  Of a
	 * broker that cannot begin, as its configuration is refused, the only word */
	CONTROL_CONFIG_TAKEN,
	/* generation: no session that began under it is left; nothing names it again */
	CONTROL_CONFIG_OVER,
	/* workspace: make this directory, empty; children of CONTROL_SPAWN name it */
	CONTROL_WORKSPACE,
	/* workspace: remove it with what is in it; no child that shows it is left */
	CONTROL_WORKSPACE_DROP,

	/* gateway -> supervisor */
	/* index: number of the request: a link to the broker, please; answered by
	 * CONTROL_DIALED */
	CONTROL_DIAL = 48,

	/* supervisor -> gateway, which gets CONTROL_PING, _SHUTDOWN and _CONFIG, too, and says
	 * CONTROL_READY, _PONG, _CONFIG_TAKEN and _SETTLED */
	/* index: of the request; fd: the link; none, and error: there is no broker now */
	CONTROL_DIALED = 56,

	/* supervisor -> client */
	CONTROL_BROKER = 64, /* fd: link to the broker (again, after a broker's death) */
	CONTROL_FAILED, /* layer, error: nothing can be started; the reason is on stderr */
};

/* What a session's child is.  Descriptors of CONTROL_LINK, in this order. */
enum child_kind {
	CHILD_TURN = 1, /* worker with a link: link, stdout, stderr */
	/* worker without: stdin (only with CONTROL_WITH_INPUT), stdout, stderr */
	CHILD_COMMAND,
	CHILD_PROVIDER, /* link, stderr; one for all sessions has a number of its own */
	/* link, stderr: the files provider over `workspace`, for its clients' own file
	 * operations */
	CHILD_WORKSPACE,
};

/* Which of a configuration's lists a row is of, with CONTROL_CONFIG_TAKEN. */
enum config_row_kind {
	CONFIG_ROW_NONE,
	CONFIG_ROW_RUNTIME,
	CONFIG_ROW_PROVIDER,
	CONFIG_ROW_TOOL,
	CONFIG_ROW_GRANT,
	CONFIG_ROW_PRINCIPAL,
};

#define CONTROL_WITH_INPUT 1u
/* To a broker: it came through the daemon's socket, from anybody who can reach that. */
#define CONTROL_FROM_SOCKET 2u
/* To a broker: carried by the gateway: there are no credentials (principal.prove). */
#define CONTROL_FROM_GATEWAY 8u
/* To a ledger: its other end is the broker's. */
#define CONTROL_FROM_BROKER 4u

/* May this signal be sent to a command?  Those of a terminal and a shell, none that kills
 * for sure: that is CONTROL_KILL's. */
bool control_may_signal(uint64_t signo);

/* Why a child is gone, from the kernel's own evidence. */
enum exit_kind {
	EXIT_NONE = 0,
	EXIT_EXITED, /* status: 0..255 */
	EXIT_SIGNALED, /* status: signal; core: 1 if dumped */
	EXIT_UNKNOWN, /* the kernel kept nothing */
};

/* Who told how it ended. */
enum exit_witness {
	WITNESS_NONE = 0,
	WITNESS_WAIT, /* waitid: it was a child of ours */
	WITNESS_PIDFD, /* PIDFD_GET_INFO of the program */
	WITNESS_INIT, /* pid 1 of its chamber, which reaped it */
};

/* Who counted what it used. */
enum exit_meter {
	METER_NONE = 0,
	METER_RUSAGE, /* of the tree, as it was reaped; memory: of its largest process */
	METER_CGROUP_V1, /* what its groups count, and rusage for the rest */
	METER_CGROUP_V2,
};

/* Which limit, with ENDING_limit; names and advice in endings.def. */
enum exit_limit {
	EXIT_LIMIT_none = 0,
#define LIMIT(name, text, next) EXIT_LIMIT_##name,
#define ENDING(cause, op, status, code, call, retry, run, exec, http, doc, next)
#include "common/endings.def"
	EXIT_LIMIT_MAX
};

struct exit_facts {
	uint32_t kind; /* enum exit_kind */
	int32_t status;
	uint32_t core;
	/* enum ending of the kill order, or the supervisor's own (seccomp, oom, limit,
	 * host_lost); 0: none */
	uint32_t cause;
	uint32_t limit; /* with ENDING_limit: enum exit_limit */
	uint32_t syscall; /* with ENDING_seccomp: its number, or UINT32_MAX */
	uint32_t arch; /* with ENDING_seccomp: AUDIT_ARCH_* */
	uint16_t told; /* enum exit_witness */
	uint16_t meter; /* enum exit_meter */
	uint64_t cpu_us; /* user + system, the whole tree */
	uint64_t peak_bytes;
	uint64_t read_bytes, written_bytes; /* from and to a disk */
	/* most at once, the chamber's pid 1 among them; 0: nobody counted */
	uint64_t processes;
};

/*
 * A layer of confinement, or a step of setting it up; names in control.c.  A launch is refused
 * by one, and says of each how far it holds.  docs/CONFINEMENT.md.
 */
enum layer {
	LAYER_NONE = 0,
	LAYER_PLAN,
	LAYER_SOURCES, /* a directory of the operator's cannot be opened */
	LAYER_UID,
	LAYER_USER_NAMESPACE,
	LAYER_NAMESPACES,
	LAYER_CGROUP,
	LAYER_MOUNTS,
	LAYER_PIVOT_ROOT,
	LAYER_PROC,
	LAYER_RLIMITS,
	LAYER_CAPABILITIES,
	LAYER_DESCRIPTORS,
	LAYER_NO_NEW_PRIVS,
	LAYER_LANDLOCK,
	LAYER_SECCOMP,
	LAYER_EXEC, /* error ENOENT: not found in the chamber; else cannot be executed */
	LAYER_HANDSHAKE, /* the launcher died between two steps: exit facts are the reason */
	LAYER_DEATHS, /* too many of this runtime's processes died as they started */
	/* No steps of their own. */
	LAYER_GROUPS, /* no supplementary groups */
	LAYER_NETWORK, /* no network but what was declared */
	LAYER_TIME, /* clocks of its own */
	LAYER_PARENT, /* dies with its supervisor */
	LAYER_TCP, /* Landlock: no TCP */
	LAYER_SCOPES, /* Landlock: no signal, no abstract socket beyond it */
	LAYER_MDWE, /* no memory that was writable becomes executable */
	LAYER_RIGHTS, /* no descriptor travels on its link */
	LAYER_LISTENER, /* a forbidden call is named, not only ended */
	LAYER_EXIT_FACTS, /* from the kernel, not from init */
	LAYER_MAX,
};

/* Those that a profile may name optional: a kernel, or a user without root, may lack them. */
#define LAYERS_OPTIONAL \
	(1u << LAYER_UID | 1u << LAYER_GROUPS | 1u << LAYER_TIME | 1u << LAYER_TCP | \
	    1u << LAYER_SCOPES | 1u << LAYER_MDWE | 1u << LAYER_RIGHTS | \
	    1u << LAYER_LISTENER | 1u << LAYER_EXIT_FACTS)

struct control {
	uint32_t verb;
	uint32_t kind; /* enum child_kind */
	uint64_t session;
	uint32_t index; /* into the configuration, or a segment's number */
	int32_t error; /* errno, or a signal number */
	uint32_t cause; /* enum ending */
	uint32_t layer; /* enum layer */
	uint32_t flags;
	uint32_t uid, gid, pid;
	uint64_t generation; /* of the configuration that a child's index is into */
	uint64_t count;
	/* of the session that a child is for; its chamber shows it where its runtime or
	 * provider is configured so; 0: none */
	uint64_t workspace;
	struct exit_facts exit;
};

/*
 * Sends one struct and `nfds` descriptors, which stay the caller's.  Returns 0;
 * -EAGAIN if the socket is full; another negative errno.
 */
int control_send(int fd, const struct control *c, const int *fds, unsigned nfds);

/*
 * Receives one struct.  Descriptors come close-on-exec; `ret_fds` holds CONTROL_FDS_MAX
 * and is filled with -1 beyond `*ret_nfds`.  Where there is no room for all of them among
 * ours, the struct comes without any.  Returns 1; 0 at end-of-file; -EAGAIN; -EPROTO for a
 * struct of another size or more descriptors than fit (all are closed); another negative
 * errno.
 */
int control_recv(int fd, struct control *ret, int ret_fds[CONTROL_FDS_MAX], unsigned *ret_nfds);

/* "landlock", ...; "unknown" for a number that is none. */
const char *layer_name(uint32_t layer);

#endif /* COMMON_CONTROL_H */
