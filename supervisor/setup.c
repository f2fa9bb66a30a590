#include "supervisor/setup.h"

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/protocol.h"
#include "common/util.h"
#include "supervisor/profiles.h"
#include "supervisor/config_private.h"

#define TURN_TIMEOUT_MAX_MS 600000	/* limits.turn_timeout's ceiling */

struct builder {
	enum command command;
	const struct options *o;
	struct setup *s;
	struct conf_namespace *c;
	char *err;
};

__attribute__((format(printf, 2, 3))) static int
refuse(struct builder *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(b->err, CONF_ERROR_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int
no_memory(struct builder *b)
{
	refuse(b, "out of memory");
	return -ENOMEM;
}

/* Replaces a text; false if memory is out. */
__attribute__((format(printf, 2, 3))) static bool
set(char **v, const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return false;
	free(*v);
	*v = text;
	return true;
}

static struct conf_list *
list_of(void *several)
{
	return several;
}

static void *
add(const char *key, void *several)
{
	return conf_add(conf_list_section(&conf_root, key), list_of(several));
}

/* ---- who --------------------------------------------------------------------------- */

static int
set_principals(struct builder *b)
{
	struct passwd *pw = getpwuid(geteuid());
	struct conf_namespace *c = b->c;
	bool ok;

	ok = pw ? set(&c->authority, "human:%.256s", pw->pw_name)
		: set(&c->authority, "human:%u", (unsigned)geteuid());
	return ok && set(&c->owner, "%s", c->authority) ? 0 : no_memory(b);
}

/* ---- the runtime ------------------------------------------------------------------- */

static int
add_command(struct builder *b)
{
	const char *name = strrchr(b->o->command[0], '/'), *s;
	struct conf_runtime *t;
	size_t i;

	name = name ? name + 1 : b->o->command[0];
	for (s = name; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return refuse(b, "--: the command's name holds a control character");
	if (!*name || strlen(name) > 256)
		return refuse(b, "--: the command's name is not 1 to 256 bytes long");
	conf_truncate(conf_list_section(&conf_root, "runtimes"), list_of(&b->c->runtimes), 0);
	t = add("runtimes", &b->c->runtimes);
	if (!t || !set(&t->id, "%s", name) || !set(&t->profile, PROFILE_DEFAULT))
		return no_memory(b);
	t->has_command = true;
	for (i = 0; i < b->o->ncommand; i++)
		if (conf_words_add(&t->command, b->o->command[i], strlen(b->o->command[i])) < 0)
			return no_memory(b);
	return 0;
}

/* Of the file's runtimes, the one that was chosen, or the only one. */
static int
choose_runtime(struct builder *b)
{
	const struct conf_section *s = conf_list_section(&conf_root, "runtimes");
	const char *wanted = b->o->has_runtime ? b->o->runtime : NULL;
	struct conf_namespace *c = b->c;
	struct conf_runtime chosen;
	size_t i = 0;

	if (wanted)
		while (i < c->runtimes.n && strcmp(c->runtimes.v[i].id, wanted))
			i++;
	if (i == c->runtimes.n)
		return wanted ? refuse(b, "--runtime: %s has no runtime \"%.80s\"",
				    b->o->config, wanted)
			      : refuse(b, "-c: %s has no runtime, expected one, or -- COMMAND",
				    b->o->config);
	if (!wanted && c->runtimes.n > 1)
		return refuse(b, "--runtime: is needed, as %s has %zu runtimes", b->o->config,
		    c->runtimes.n);
	chosen = c->runtimes.v[i];
	c->runtimes.v[i] = c->runtimes.v[0];
	c->runtimes.v[0] = chosen;
	conf_truncate(s, list_of(&c->runtimes), 1);
	return 0;
}

static int
apply_mounts(struct builder *b, struct conf_runtime *t, const struct option_pairs *pairs,
    const char *name, bool writable)
{
	const struct conf_section *s =
	    conf_list_section(conf_list_section(&conf_root, "runtimes"), "mounts");
	size_t i;

	for (i = 0; i < pairs->n; i++) {
		cleanup_free char *real = realpath(pairs->item[i].left, NULL);
		struct conf_mount *m;

		if (!real)
			return refuse(
			    b, "--%s: %.300s: %s", name, pairs->item[i].left, strerror(errno));
		m = conf_add(s, list_of(&t->mounts));
		if (!m || !set(&m->source, "%s", real) ||
		    !set(&m->target, "%s", pairs->item[i].right ? pairs->item[i].right : real))
			return no_memory(b);
		m->writable = writable;
	}
	return 0;
}

static int
apply_env(struct builder *b, struct conf_runtime *t)
{
	size_t i;

	for (i = 0; i < b->o->env.n; i++) {
		const struct option_pair *e = &b->o->env.item[i];
		cleanup_free char *text = NULL;

		if (!e->right && !getenv(e->left))
			return refuse(
			    b, "--env: %.64s has no value here, expected NAME=VALUE", e->left);
		if (!set(&text, "%s%s%s", e->left, e->right ? "=" : "",
			e->right ? e->right : "") ||
		    conf_words_add(&t->env, text, strlen(text)) < 0)
			return no_memory(b);
	}
	return 0;
}

static int
apply_profile(struct builder *b, struct conf_runtime *t)
{
	const char *name = b->o->profile;

	if (!b->o->has_profile)
		return 0;
	if (!conf_profile_fits(b->c, name, true))
		return refuse(b,
		    "--profile: \"%.64s\" is neither " CONF_PROFILES_RUNTIME "%s%.300s", name,
		    b->o->has_config ? ", nor one of " : "",
		    b->o->has_config ? b->o->config : "");
	return set(&t->profile, "%s", name) ? 0 : no_memory(b);
}

/* A directory of the command line's; `*v` becomes its real path. */
static int
set_directory(struct builder *b, char **v, const char *path, const char *name)
{
	cleanup_free char *real = realpath(path, NULL);
	struct stat st;

	if (!real || stat(real, &st) < 0)
		return refuse(b, "--%s: %.300s: %s", name, path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return refuse(b, "--%s: %.300s: is no directory", name, path);
	return set(v, "%s", real) ? 0 : no_memory(b);
}

static int
apply_options(struct builder *b)
{
	struct conf_runtime *t = &b->c->runtimes.v[0];
	const struct options *o = b->o;
	int r;

	if (o->has_app && (r = set_directory(b, &t->app, o->app, "app")) < 0)
		return r;
	if ((r = apply_profile(b, t)) < 0 || (r = apply_env(b, t)) < 0 ||
	    (r = apply_mounts(b, t, &o->ro, "ro", false)) < 0 ||
	    (r = apply_mounts(b, t, &o->rw, "rw", true)) < 0)
		return r;
	if (o->has_memory)
		t->memory = o->memory_bytes;
	if (o->has_tmp)
		t->tmp = o->tmp_bytes;
	if (o->has_cpu)
		t->cpu = o->cpu;
	if (o->has_pids)
		t->pids = o->pids;
	return 0;
}

/* ---- grants ------------------------------------------------------------------------ */

/* One capability of a runtime's over a path that is still empty, one action. */
static struct conf_capability *
add_grant(struct builder *b, size_t runtime, const char *id, const char *namespace,
    const char *action)
{
	struct conf_grant *g = add("grants", &b->c->grants);
	const struct conf_section *s =
	    conf_list_section(conf_list_section(&conf_root, "grants"), "capabilities");
	struct conf_capability *c;

	if (!g || !set(&g->id, "%s", id) ||
	    !set(&g->subject, "agent:%s", b->c->runtimes.v[runtime].id) ||
	    !set(&g->issuer, "%s", b->c->authority) ||
	    !set(&g->namespace, "%s", b->c->namespace))
		return NULL;
	c = conf_add(s, list_of(&g->capabilities));
	if (!c || !set(&c->resource.namespace, "%s", namespace) ||
	    conf_words_add(&c->actions, action, strlen(action)) < 0)
		return NULL;
	return c;
}

/* "docs/", "./docs" and "docs" are one directory; "" and "." are the root. */
static int
add_allow(struct builder *b, const struct option_pair *allow, size_t i)
{
	struct conf_capability *c;
	const char *s = allow->right, *segment, *fault;
	char id[32];
	size_t n;

	snprintf(id, sizeof(id), "allow-%zu", i + 1);
	c = add_grant(b, 0, id, WORKSPACE_NAMESPACE, allow->left);
	if (!c)
		return no_memory(b);
	c->resource.scope = scope_descendants;
	while ((n = options_next_segment(&s, &segment)) > 0) {
		fault = options_segment_fault(segment, n);
		if (fault)
			return refuse(b, "--allow: %.200s %s", allow->right, fault);
		if (conf_words_add(&c->resource.path, segment, n) < 0)
			return no_memory(b);
	}
	if (c->resource.path.n > PATH_SEGMENTS_MAX)
		return refuse(b, "--allow: the path has over %d segments", PATH_SEGMENTS_MAX);
	return 0;
}

static bool
is_taken(const struct conf_namespace *c, const char *id)
{
	size_t i;

	for (i = 0; i < c->grants.n; i++)
		if (!strcmp(c->grants.v[i].id, id))
			return true;
	return false;
}

/* Who starts a run or a daemon allows it: the one grant that no file has to spell out. */
static int
add_invoke(struct builder *b, size_t runtime)
{
	const char *agent = b->c->runtimes.v[runtime].id;
	struct conf_capability *c;
	char id[32] = "run";
	unsigned n;

	for (n = 2; is_taken(b->c, id); n++)
		snprintf(id, sizeof(id), "run-%u", n);
	c = add_grant(b, runtime, id, EXECUTION_NAMESPACE, EXECUTION_ACTION);
	if (!c || conf_words_add(&c->resource.path, agent, strlen(agent)) < 0)
		return no_memory(b);
	c->resource.scope = scope_exact;
	return 0;
}

/* ---- with and without a file ------------------------------------------------------- */

static int
from_nothing(struct builder *b)
{
	struct conf_provider *p;
	size_t i;
	int r;

	if (conf_init(b->c) < 0)
		return no_memory(b);
	if ((r = set_principals(b)) < 0 || (r = add_command(b)) < 0)
		return r;
	if (b->command != COMMAND_run)
		return 0;
	p = add("providers", &b->c->providers);
	if (!p || !set(&p->id, "files"))
		return no_memory(b);
	p->builtin = BUILTIN_FILES;
	r = set_directory(b, &p->root, b->o->has_root ? b->o->root : ".", "root");
	for (i = 0; r == 0 && i < b->o->allow.n; i++)
		r = add_allow(b, &b->o->allow.item[i], i);
	if (b->o->has_max_steps)
		b->c->limits.max_steps = b->o->max_steps;
	if (b->o->has_max_tool_calls)
		b->c->limits.max_tool_calls = b->o->max_tool_calls;
	return r;
}

/* Those of a daemon's sessions; a run of its own is none. */
static int
refuse_workspaces(struct builder *b)
{
	const struct conf_namespace *c = b->c;
	size_t i;

	if (c->runtimes.v[0].workspace)
		return refuse(b,
		    "-c: the runtime \"%.80s\" of %s works in a session's workspace, which a run "
		    "of its own has not: caissond -c %s, then caisson session acquire",
		    c->runtimes.v[0].id, b->o->config, b->o->config);
	for (i = 0; i < c->providers.n; i++)
		if (c->providers.v[i].workspace)
			return refuse(b,
			    "-c: the provider \"%.80s\" of %s serves a session's workspace, which "
			    "a run of its own has not: caissond -c %s, then caisson session acquire",
			    c->providers.v[i].id, b->o->config, b->o->config);
	return 0;
}

static int
from_file(struct builder *b)
{
	struct conf_namespace *c = b->c;
	int r;

	if (b->o->has_allow)
		return refuse(b, "--allow: the grants are those of %s", b->o->config);
	if (b->o->has_root)
		return refuse(b, "--root: the providers are those of %s", b->o->config);
	r = conf_open(b->o->config, c, b->err);
	if (r < 0)
		return r;
	if (b->command == COMMAND_exec) {
		conf_truncate(conf_list_section(&conf_root, "tools"), list_of(&c->tools), 0);
		conf_truncate(
		    conf_list_section(&conf_root, "providers"), list_of(&c->providers), 0);
	}
	r = b->o->command ? add_command(b) : choose_runtime(b);
	return r < 0 ? r : refuse_workspaces(b);
}

static int
set_timeout(struct builder *b)
{
	const struct options *o = b->o;

	if (b->command != COMMAND_run) {
		b->s->timeout_ms = o->has_timeout ? o->timeout_ms : 0;
		return 0;
	}
	b->s->timeout_ms = o->has_timeout ? o->timeout_ms : b->c->limits.turn_timeout;
	if (b->s->timeout_ms > TURN_TIMEOUT_MAX_MS)
		return refuse(b, "--timeout: is over 10m, the most that a turn may have");
	if (o->has_config && b->s->timeout_ms > b->c->limits.turn_timeout)
		return refuse(b, "--timeout: is over the turn_timeout of %s", o->config);
	return 0;
}

int
setup_private(
    enum command command, const struct options *o, struct setup *ret, char err[CONF_ERROR_MAX])
{
	struct builder b = {
		.command = command, .o = o, .s = ret, .c = &ret->config, .err = err
	};
	const char *file = o->has_config ? o->config : NULL;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->file = file;
	ret->kind = command == COMMAND_run ? operation_kind_turn : operation_kind_command;
	r = file ? from_file(&b) : from_nothing(&b);
	if (r < 0 || (r = apply_options(&b)) < 0 || (r = add_invoke(&b, 0)) < 0 ||
	    (r = set_timeout(&b)) < 0 || (r = conf_complete(b.c, file, err)) < 0)
		return r;
	return conf_resolve(b.c, file, err);
}

int
setup_daemon(const struct options *o, struct setup *ret, char err[CONF_ERROR_MAX])
{
	struct builder b = {
		.command = COMMAND_daemon, .o = o, .s = ret, .c = &ret->config, .err = err
	};
	size_t i;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->file = o->config;
	ret->kind = operation_kind_turn;
	r = conf_open(o->config, b.c, err);
	for (i = 0; r == 0 && i < b.c->runtimes.n; i++)
		r = add_invoke(&b, i);
	if (r == 0)
		r = conf_complete(b.c, o->config, err);
	if (r == 0)
		r = conf_resolve(b.c, o->config, err);
	ret->timeout_ms = b.c->limits.turn_timeout;
	return r;
}

void
setup_finish(struct setup *s)
{
	conf_finish(&s->config);
}
