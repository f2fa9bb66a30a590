/*
 * session_files: the HTTP API's handlers (routes.def) that read the workspace of a session.
 */
#ifndef GATEWAY_SESSION_FILES_H
#define GATEWAY_SESSION_FILES_H

struct caller;

void session_files_list(struct caller *x);
void session_files_stat(struct caller *x);
void session_files_content(struct caller *x);

#endif /* GATEWAY_SESSION_FILES_H */
