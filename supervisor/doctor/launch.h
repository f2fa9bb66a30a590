/*
 * doctor_launch: a chamber of every built-in profile, made as all are.
 */
#ifndef SUPERVISOR_DOCTOR_LAUNCH_H
#define SUPERVISOR_DOCTOR_LAUNCH_H

struct doctor_report;

/* Launches true(1) in a chamber of each profile, all at once, and fills `launches` when
 * they are gone, in bounded time.  Returns 0, or a negative errno for want of memory. */
int doctor_launch_all(struct doctor_report *report);

#endif /* SUPERVISOR_DOCTOR_LAUNCH_H */
