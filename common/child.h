/*
 * child: the contract between the supervisor and its children: every inherited
 * descriptor, argument and variable.  What is not here is closed or unset.
 */
#ifndef COMMON_CHILD_H
#define COMMON_CHILD_H

/* caisson-broker [--check]: with --check it says what it has against its configuration, in one
 * CONTROL_CONFIG_TAKEN, and ends.  2 is the supervisor's log. */
#define BROKER_WORD_CHECK "--check"
#define BROKER_FD_CONTROL 3 /* SEQPACKET, struct control */
#define BROKER_FD_CONFIG  4 /* sealed memfd: frames config.broker ... config.end */

/* caisson-ledger [--read-only]: with --read-only descriptor 3 is a link to a client
 * instead, and the index is kept in memory. */
#define LEDGER_FD_CONTROL 3 /* SEQPACKET, struct control: CONTROL_CLIENT brings links */
#define LEDGER_FD_JOURNAL 4 /* the directory of the segments */
#define LEDGER_FD_INDEX	  5 /* the directory of index and head */

/* caisson-gateway CONFIG: its argument is the number, in decimal, of the sealed memfd with the
 * frames config.gateway ... config.end, which stands behind its listening sockets. */
#define GATEWAY_FD_CONTROL 3 /* SEQPACKET, struct control: CONTROL_DIALED brings links */
#define GATEWAY_FD_LISTEN  4 /* the first of the listening sockets, as config.listener frames */

/* caisson-worker: the launcher.  Everything it needs is in the plan. */
#define LAUNCH_FD_SOCKET 3 /* SEQPACKET, struct launch_report up, single bytes down */
#define LAUNCH_FD_PLAN	 4 /* sealed memfd, worker/plan.h */
#define LAUNCH_FD_FIRST	 5 /* descriptors of the child, in the plan's order */

/* A runtime or provider: 0, 1, 2 are its standard streams; 3 its link, if it has one. */
#define RUNTIME_FD_LINK	     3
#define RUNTIME_ENV_LINK "CAISSON_LINK_FD" /* "3" */

/* caissond started by `caisson run`, `exec`, `learn` or `grant`. */
#define PRIVATE_FD_CONTROL 3 /* SEQPACKET, struct control, to the client */
#define PRIVATE_FD_LIFE	   4 /* end-of-file: the client is gone, or wants us gone */
#define PRIVATE_FD_PROPOSAL 5 /* `learn` without a file: where the proposal goes */

#endif /* COMMON_CHILD_H */
