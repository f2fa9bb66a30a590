/*
 * What the files of config.h share.
 */
#ifndef SUPERVISOR_CONFIG_PRIVATE_H
#define SUPERVISOR_CONFIG_PRIVATE_H

#include "supervisor/config.h"

struct conf_checker {
	struct conf_namespace *c;
	const char *file;
	char *err;
	uint64_t warm; /* of all that were seen */
};

#define conf_check_refuse(k, at, ...) conf_refuse((k)->err, (k)->file, at, __VA_ARGS__)
/* Says so at the head of the file.  -ENOMEM. */
int conf_check_no_memory(struct conf_checker *k);

/* Texts of 1..max bytes, none twice; 0 or as conf_refuse(). */
int conf_check_words(struct conf_checker *k, const struct conf_words *w, size_t max,
    struct node_at at, const char *key);

/* The grants and the ceiling: config_grants.c. */
int conf_check_grants(struct conf_checker *k);

/* `key` is the section that they stand in, for errors; 0 or as conf_refuse(). */
int conf_check_env(
    struct conf_checker *k, const struct conf_words *env, struct node_at at, const char *key);
int conf_check_mounts(struct conf_checker *k, const struct conf_mount *v, size_t n,
    const char *app, bool workspace, const char *key);

/* Does `target` lie where a chamber shows a session's workspace? */
bool conf_in_workspace(const char *target);

/* config_principals.c, config_gateway.c */
int conf_check_principals(struct conf_checker *k);
int conf_check_gateway(struct conf_checker *k);

/* ---- profiles: config_profiles.c ---- */

/* The built-in ones that a runtime may name. */
#define CONF_PROFILES_RUNTIME "native, interpreter nor jit"

/* Profiles of the operator's, in the order of conf_namespace.profiles. */
struct conf_built {
	size_t n;
	struct profile *v[];
};

/* Checks and builds c->profiles into c->built; once.  0, -ENOMEM, or as conf_refuse(). */
int conf_profiles_build(struct conf_checker *k);
void conf_profiles_destroy(struct conf_built *built);

/* May a runtime, or else a provider, have the profile `name`? */
bool conf_profile_fits(const struct conf_namespace *c, const char *name, bool runtime);
/* The same as a check of the field `profile` of `key`. */
int conf_check_profile(struct conf_checker *k, const char *name, bool runtime,
    struct node_at at, const char *key);
/* Do the mounts of who has it, /app if `app` and /workspace, leave those of the profile in
 * sight? None of them may lie in the workspace. */
int conf_check_profile_mounts(struct conf_checker *k, const char *name,
    const struct conf_mount *v, size_t n, const char *app, bool workspace, const char *key);

#endif /* SUPERVISOR_CONFIG_PRIVATE_H */
