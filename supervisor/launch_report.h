/*
 * launch_report: what comes up a launch socket: fixed-size structs, one with a descriptor.
 */
#ifndef SUPERVISOR_LAUNCH_REPORT_H
#define SUPERVISOR_LAUNCH_REPORT_H

struct launch_report;

/*
 * Receives one report.  Returns 1, with `*ret_fd` -1 or a descriptor, close-on-exec, that is
 * the caller's; 0 once nobody has the other end; -EAGAIN; -EPROTO for anything of another
 * size, with more than one descriptor, or with one that there was no room for: whatever
 * came with it is closed; another negative errno.
 */
int launch_report_recv(int socket_fd, struct launch_report *ret, int *ret_fd);

#endif /* SUPERVISOR_LAUNCH_REPORT_H */
