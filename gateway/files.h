/*
 * files: the HTTP API's handlers (routes.def) that read the workspace of a session.
 */
#ifndef GATEWAY_FILES_H
#define GATEWAY_FILES_H

struct caller;

void files_list(struct caller *x);
void files_stat(struct caller *x);
void files_content(struct caller *x);

#endif /* GATEWAY_FILES_H */
