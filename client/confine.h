/*
 * confine: the client locks itself in before it reads a runtime's text.
 *
 * Everything is open by then: the standard streams, caissond's control socket, the life
 * pipe.  From here on no file, socket or program can be opened, and no process but this
 * one be touched.
 */
#ifndef CLIENT_CONFINE_H
#define CLIENT_CONFINE_H

/*
 * For the whole process, and for good.  Returns 0; a negative errno if the system call
 * filter cannot be loaded (Landlock is used where the kernel has it).
 */
int client_confine(void);

#endif /* CLIENT_CONFINE_H */
