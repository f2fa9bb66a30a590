#include <stdlib.h>
#include <string.h>

#include "common/child.h"
#include "common/util.h"
#include "supervisor/child_env.h"

/* The whole of it, when the operator says nothing.  Nothing of the caller's gets in. */
static const char *const defaults[] = {
	"PATH=/usr/local/bin:/usr/bin:/bin",
	"HOME=/tmp",
	"LANG=C.UTF-8",
};
static const char link_variable[] = RUNTIME_ENV_LINK "=3";
_Static_assert(RUNTIME_FD_LINK == 3, "link_variable");

/* Do both texts, up to their '=' or end, name the same variable? */
static bool
same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return n == strcspn(b, "=") && !strncmp(a, b, n);
}

static bool
is_said(const struct conf_words *env, size_t from, const char *variable)
{
	size_t i;

	for (i = from; i < env->n; i++)
		if (same_name(env->v[i], variable))
			return true;
	return false;
}

static bool
append(char **env, size_t *n, const char *text)
{
	env[*n] = strdup(text);
	return env[*n] && ++*n;
}

/* NAME alone takes the value of this process; a variable that it lacks is left out. */
static bool
append_said(char **env, size_t *n, const char *said)
{
	const char *value;

	if (strchr(said, '='))
		return append(env, n, said);
	value = getenv(said);
	if (!value)
		return true;
	return asprintf(&env[*n], "%s=%s", said, value) >= 0 && ++*n;
}

char **
child_env_create(const struct conf_words *said, bool has_link)
{
	char **env = calloc(countof(defaults) + said->n + 2, sizeof(*env));
	size_t n = 0, i;
	bool ok = env != NULL;

	for (i = 0; ok && i < countof(defaults); i++)
		if (!is_said(said, 0, defaults[i]))
			ok = append(env, &n, defaults[i]);
	for (i = 0; ok && i < said->n; i++)
		if (!same_name(said->v[i], link_variable) && !is_said(said, i + 1, said->v[i]))
			ok = append_said(env, &n, said->v[i]);
	if (ok && has_link)
		ok = append(env, &n, link_variable);
	if (ok)
		return env;
	if (env)
		env[n] = NULL;
	child_env_destroy(env);
	return NULL;
}

void
child_env_destroy(char **env)
{
	char **e;

	for (e = env; e && *e; e++)
		free(*e);
	free(env);
}
