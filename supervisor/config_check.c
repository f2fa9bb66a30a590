#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "common/util.h"
#include "common/walk.h"
#include "supervisor/config_private.h"

/* What the built-in files provider offers. */
static const struct builtin_tool {
	const char *name, *action, *path, *schema, *doc;
	enum effect effect;
	bool idempotent;
} files_tools[] = {
#define FILES_TOOL(id, name, action, effect, idempotent, path, schema, doc)                    \
	{ name, action, path, schema, doc, effect_##effect, idempotent },
#include "worker/files/tools.def"
};
static const char files_tool_names[] =
#define FILES_TOOL(id, name, action, effect, idempotent, path, schema, doc) " " name
#include "worker/files/tools.def"
    ;
#define FILES_NAMESPACE		 "files" /* of its tools */
#define FILES_RESOURCE_NAMESPACE "workspace"
#define WARM_MAX		 256

#define refuse	  conf_check_refuse
#define no_memory conf_check_no_memory

int
no_memory(struct conf_checker *k)
{
	refuse(k, k->c->at, "out of memory");
	return -ENOMEM;
}

/* ---- tools that a builtin provider brings ------------------------------------------ */

static int
set_text(char **v, bool *has, const char *text)
{
	free(*v);
	*v = strdup(text);
	*has = true;
	return *v ? 0 : -ENOMEM;
}

static int
pack_schema(struct conf_checker *k, struct conf_packed *ret, const char *json)
{
	struct buf b = { 0 };
	struct node_error fault;
	struct node *root = node_read(json, strlen(json), &fault);
	int r;

	r = root ? conf_pack_value(root, &b, k->file, k->err) : no_memory(k);
	node_destroy(root);
	if (r < 0)
		buf_finish(&b);
	else
		*ret = (struct conf_packed){ b.p, b.n };
	return r;
}

static int
add_builtin_tool(struct conf_checker *k, const char *provider, const struct builtin_tool *b)
{
	struct conf_tool *t = conf_add(
	    conf_list_section(&conf_root, "tools"), (struct conf_list *)(void *)&k->c->tools);

	if (!t || set_text(&t->name, &t->has_name, b->name) < 0 ||
	    set_text(&t->provider, &t->has_provider, provider) < 0 ||
	    set_text(&t->namespace, &t->has_namespace, FILES_NAMESPACE) < 0 ||
	    set_text(&t->description, &t->has_description, b->doc) < 0 ||
	    set_text(&t->requires.action, &t->requires.has_action, b->action) < 0 ||
	    set_text(&t->requires.resource.namespace, &t->requires.resource.has_namespace,
		FILES_RESOURCE_NAMESPACE) < 0 ||
	    set_text(&t->requires.resource.path, &t->requires.resource.has_path, b->path) < 0)
		return no_memory(k);
	t->effect = b->effect;
	t->idempotent = b->idempotent;
	t->has_effect = t->has_idempotent = t->has_input = t->has_requires = true;
	t->requires.has_resource = true;
	return pack_schema(k, &t->input, b->schema);
}

static int
add_builtin_tools(struct conf_checker *k)
{
	size_t i, j, listed = k->c->tools.n;
	int r;

	for (i = 0; i < k->c->providers.n; i++) {
		const struct conf_provider *p = &k->c->providers.v[i];

		for (j = 0; j < listed; j++)
			if (!strcmp(k->c->tools.v[j].provider, p->id))
				break;
		if (p->builtin != BUILTIN_FILES || j < listed)
			continue;
		for (j = 0; j < countof(files_tools); j++) {
			r = add_builtin_tool(k, p->id, &files_tools[j]);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* ---- ids --------------------------------------------------------------------------- */

/* No two elements of the list `key` share the text field `name`. */
static int
check_unique(
    struct conf_checker *k, const char *key, const char *name, const struct conf_list *list)
{
	const struct conf_section *s = conf_list_section(&conf_root, key);
	const struct conf_field *f;
	const char *a, *b;
	size_t i, j;

	for (f = s->fields; strcmp(f->key, name); f++)
		;
	for (i = 1; i < list->n; i++) {
		a = (const char *)list->v + i * s->size;
		for (j = 0; j < i; j++) {
			b = (const char *)list->v + j * s->size;
			if (strcmp(*(char *const *)(const void *)(a + f->value),
				*(char *const *)(const void *)(b + f->value)))
				continue;
			return refuse(k, *(const struct node_at *)(const void *)(a + f->at),
			    "%s[%zu].%s: \"%.80s\" is also %s[%zu].%s, expected another", key,
			    i, name, *(char *const *)(const void *)(a + f->value), key, j,
			    name);
		}
	}
	return 0;
}

static int
check_ids(struct conf_checker *k)
{
	int r;

#define UNIQUE(key, name)                                                                      \
	check_unique(k, #key, name, (const struct conf_list *)(const void *)&k->c->key)
	if ((r = UNIQUE(profiles, "id")) < 0 || (r = UNIQUE(runtimes, "id")) < 0 ||
	    (r = UNIQUE(providers, "id")) < 0 || (r = UNIQUE(tools, "name")) < 0 ||
	    (r = UNIQUE(grants, "id")) < 0 || (r = UNIQUE(principals, "id")) < 0)
		return r;
	return 0;
#undef UNIQUE
}

/* ---- runtimes and providers -------------------------------------------------------- */

static int
check_command(struct conf_checker *k, const struct conf_words *command, struct node_at at,
    const char *key)
{
	if (command->n == 0 || command->v[0][0] == '\0')
		return refuse(k, at, "%s.command: is empty, expected a program", key);
	return 0;
}

int
conf_check_env(
    struct conf_checker *k, const struct conf_words *env, struct node_at at, const char *key)
{
	const char *s;
	size_t i;

	for (i = 0; i < env->n; i++) {
		for (s = env->v[i]; isalnum((unsigned char)*s) || *s == '_'; s++)
			;
		if (s == env->v[i] || isdigit((unsigned char)env->v[i][0]) || (*s && *s != '='))
			return refuse(
			    k, at, "%s.env[%zu]: expected NAME=VALUE or NAME", key, i);
	}
	return 0;
}

static bool
is_chamber_path(const char *s)
{
	const char *end;

	if (*s != '/')
		return false;
	for (s++;; s = end + 1) {
		end = strchrnul(s, '/');
		if (end == s || options_segment_fault(s, (size_t)(end - s)))
			return false;
		if (*end == '\0')
			return true;
	}
}

/* No place for a mount is made where an untrusted program writes. */
bool
conf_in_workspace(const char *target)
{
	size_t n = strlen(WORKSPACE_TARGET);

	return !strncmp(target, WORKSPACE_TARGET, n) &&
	       (target[n] == '\0' || target[n] == '/');
}

/* Why nothing can be mounted there; NULL if something can. */
static const char *
target_fault(const struct conf_mount *v, size_t i, const char *app, bool workspace)
{
	const char *target = v[i].target;
	size_t j;

	if (!is_chamber_path(target))
		return "is no absolute path, expected one like /data";
	if (!strcmp(target, "/dev"))
		return "is the chamber's own, expected another place";
	if (!strncmp(target, "/proc/", strlen("/proc/")))
		return "lies in /proc, expected another place";
	if (app && !strcmp(target, "/app"))
		return "is the place of the application";
	if (workspace && conf_in_workspace(target))
		return "lies in the workspace, expected another place";
	for (j = 0; j < i; j++)
		if (!strcmp(target, v[j].target))
			return "is the place of another mount";
	return NULL;
}

int
conf_check_mounts(struct conf_checker *k, const struct conf_mount *v, size_t n, const char *app,
    bool workspace, const char *key)
{
	const char *fault;
	size_t i;

	for (i = 0; i < n; i++) {
		fault = target_fault(v, i, app, workspace);
		if (fault)
			return refuse(k, v[i].at_target, "%s.mounts[%zu].target: %s (%.200s)",
			    key, i, fault, v[i].target);
	}
	return 0;
}

/* Each of them is some ten descriptors and a few processes, whether it is ever used or not. */
static int
count_warm(struct conf_checker *k, uint64_t warm, struct node_at at, const char *key)
{
	k->warm += warm;
	if (k->warm > WARM_MAX)
		return refuse(k, at, "%s.warm: is more than %d in all runtimes and providers",
		    key, WARM_MAX);
	return 0;
}

/* A chamber is made for one session's workspace, so not before that session is known. */
static int
check_workspace(struct conf_checker *k, bool workspace, uint64_t warm, struct node_at at,
    const char *key)
{
	if (workspace && warm)
		return refuse(k, at,
		    "%s.warm: none that shows a workspace can wait for its session, as it is "
		    "made for that one's; expected no warm, or no workspace",
		    key);
	return 0;
}

/* What the built-in one is when nothing is said, and what may not be said of it. */
static int
check_command_runtime(struct conf_checker *k, struct conf_runtime *t, const char *key)
{
	if (t->has_command)
		return refuse(k, t->at_command,
		    "%s.command: is there beside builtin, expected one of them", key);
	if (t->has_app)
		return refuse(k, t->at_app,
		    "%s.app: is for a runtime with a command; builtin: command works in the "
		    "workspace",
		    key);
	if (t->has_workspace && !t->workspace)
		return refuse(k, t->at_workspace,
		    "%s.workspace: is false, and builtin: command works in one", key);
	t->workspace = true;
	if (!t->has_profile) {
		free(t->profile);
		t->profile = strdup("interpreter");
	}
	return t->profile ? 0 : no_memory(k);
}

static int
check_program(struct conf_checker *k, struct conf_runtime *t, const char *key)
{
	if (t->builtin == RUNTIME_COMMAND)
		return check_command_runtime(k, t, key);
	if (!t->has_command)
		return refuse(k, t->at,
		    "%s: neither builtin nor command is there, expected one of them", key);
	return check_command(k, &t->command, t->at_command, key);
}

/* Nobody is to believe that it says something where there is no workspace. */
static int
check_execute(struct conf_checker *k, const struct conf_runtime *t, const char *key)
{
	if (t->workspace_execute && !t->workspace)
		return refuse(k, t->at_workspace_execute,
		    "%s.workspace_execute: is there without workspace: true", key);
	return 0;
}

static int
check_runtimes(struct conf_checker *k)
{
	char key[40];
	size_t i;
	int r;

	for (i = 0; i < k->c->runtimes.n; i++) {
		struct conf_runtime *t = &k->c->runtimes.v[i];

		snprintf(key, sizeof(key), "runtimes[%zu]", i);
		if (t->has_protocolVersion && t->protocolVersion != PROTOCOL_VERSION)
			return refuse(k, t->at_protocolVersion,
			    "%s.protocolVersion: is %ju, and this Caisson speaks %d", key,
			    (uintmax_t)t->protocolVersion, PROTOCOL_VERSION);
		if ((r = check_program(k, t, key)) < 0 ||
		    (r = conf_check_profile(k, t->profile, true, t->at_profile, key)) < 0 ||
		    (r = check_execute(k, t, key)) < 0 ||
		    (r = check_workspace(k, t->workspace, t->warm, t->at_warm, key)) < 0 ||
		    (r = conf_check_env(k, &t->env, t->at_env, key)) < 0 ||
		    (r = count_warm(k, t->warm, t->at_warm, key)) < 0 ||
		    (r = conf_check_mounts(k, t->mounts.v, t->mounts.n, t->app, t->workspace,
			 key)) < 0 ||
		    (r = conf_check_profile_mounts(k, t->profile, t->mounts.v, t->mounts.n,
			 t->app, t->workspace, key)) < 0)
			return r;
	}
	return 0;
}

static int
check_builtin(struct conf_checker *k, const struct conf_provider *p, const char *key)
{
	if (p->has_command)
		return refuse(k, p->at_command,
		    "%s.command: is there beside builtin, expected one of them", key);
	if (p->root && p->workspace)
		return refuse(k, p->at_workspace,
		    "%s.workspace: is there beside root, expected one of them", key);
	if (!p->root && !p->workspace)
		return refuse(k, p->at,
		    "%s.root is missing, expected the directory to serve, or workspace: true",
		    key);
	if (p->workspace && p->scope == PROVIDER_SHARED)
		return refuse(k, p->at_scope,
		    "%s.scope: is shared, and each session has a workspace of its own", key);
	if (p->has_app || strcmp(p->profile, "provider") || p->mounts.n)
		return refuse(k, p->at,
		    "%s: app, profile and mounts are for a provider with a command", key);
	return 0;
}

static int
check_providers(struct conf_checker *k)
{
	char key[40];
	size_t i;
	int r;

	for (i = 0; i < k->c->providers.n; i++) {
		const struct conf_provider *p = &k->c->providers.v[i];

		snprintf(key, sizeof(key), "providers[%zu]", i);
		if (p->builtin == BUILTIN_FILES) {
			r = check_builtin(k, p, key);
		} else if (!p->has_command) {
			r = refuse(k, p->at,
			    "%s: neither builtin nor command is there, expected one of them",
			    key);
		} else if (p->has_root) {
			r = refuse(k, p->at_root, "%s.root: is for builtin: files", key);
		} else if (p->workspace) {
			r = refuse(
			    k, p->at_workspace, "%s.workspace: is for builtin: files", key);
		} else {
			r = check_command(k, &p->command, p->at_command, key);
		}
		if (r < 0 ||
		    (r = conf_check_profile(k, p->profile, false, p->at_profile, key)) < 0 ||
		    (r = conf_check_env(k, &p->env, p->at_env, key)) < 0 ||
		    (r = count_warm(k, p->warm, p->at_warm, key)) < 0 ||
		    (r = check_workspace(k, p->workspace, p->warm, p->at_warm, key)) < 0 ||
		    (r = conf_check_mounts(
			 k, p->mounts.v, p->mounts.n, p->app, p->workspace, key)) < 0 ||
		    (r = conf_check_profile_mounts(k, p->profile, p->mounts.v, p->mounts.n,
			 p->app, p->workspace, key)) < 0)
			return r;
	}
	return 0;
}

/* ---- tools ------------------------------------------------------------------------- */

static const struct conf_provider *
find_provider(const struct conf_namespace *c, const char *id)
{
	size_t i;

	for (i = 0; i < c->providers.n; i++)
		if (!strcmp(c->providers.v[i].id, id))
			return &c->providers.v[i];
	return NULL;
}

static bool
has_property(const struct conf_packed *input, const char *name, size_t n)
{
	struct slice schema = { input->p, input->n };
	struct value properties, property;
	char key[PATH_SEGMENT_MAX + 1];

	if (n >= sizeof(key) || !value_get(schema, "properties", &properties) ||
	    properties.type != VALUE_MAP)
		return false;
	memcpy(key, name, n);
	key[n] = '\0';
	return value_get(properties.raw, key, &property);
}

/* Segments, each of them literal or {argument}, an argument that the schema knows. */
static int
check_template(struct conf_checker *k, const struct conf_tool *t, const char *key)
{
	const char *s = t->requires.resource.path, *end, *fault;
	struct node_at at = t->requires.resource.at_path;
	size_t n;

	if (*s == '\0')
		return 0;
	for (;; s = end + 1) {
		end = strchrnul(s, '/');
		n = (size_t)(end - s);
		if (n > 2 && s[0] == '{' && end[-1] == '}') {
			if (!has_property(&t->input, s + 1, n - 2))
				return refuse(k, at,
				    "%s.requires.resource.path: {%.*s} is no property of "
				    "input, "
				    "expected one",
				    key, (int)(n - 2), s + 1);
		} else {
			fault = options_segment_fault(s, n);
			if (!fault && (memchr(s, '{', n) || memchr(s, '}', n)))
				fault = "has braces within a segment";
			if (fault)
				return refuse(k, at,
				    "%s.requires.resource.path: %s, expected segments like "
				    "docs/{path}",
				    key, fault);
		}
		if (*end == '\0')
			return 0;
	}
}

/* The builtin provider knows its tools by name, and what each of them does. */
static int
check_files_tool(struct conf_checker *k, const struct conf_tool *t, const char *key)
{
	size_t i;

	for (i = 0; i < countof(files_tools); i++)
		if (!strcmp(files_tools[i].name, t->name))
			break;
	if (i == countof(files_tools))
		return refuse(k, t->at_name,
		    "%s.name: \"%.80s\" is no tool of the files provider, expected one of%s",
		    key, t->name, files_tool_names);
	if (t->effect != files_tools[i].effect)
		return refuse(k, t->at_effect, "%s.effect: %s has the effect %s", key, t->name,
		    conf_names_effect[files_tools[i].effect]);
	if (t->idempotent && !files_tools[i].idempotent)
		return refuse(k, t->at_idempotent, "%s.idempotent: %s is not", key, t->name);
	return 0;
}

/* What is said of it beside its effect may not contradict that, and is as that if it is not
 * said. */
static int
check_annotations(struct conf_checker *k, struct conf_tool *t, const char *key)
{
	struct conf_annotations *a = &t->annotations;

	if (!a->has_readOnly)
		a->readOnly = t->effect == effect_read;

	if (t->effect == effect_read && a->destructive)
		return refuse(k, a->at_destructive,
		    "%s.annotations.destructive: a tool whose effect is read is not", key);
	if (t->effect == effect_write && a->readOnly)
		return refuse(k, a->at_readOnly,
		    "%s.annotations.readOnly: a tool whose effect is write is not", key);
	return 0;
}

#define OWN_TOOLS "sharedos."

static int
check_tools(struct conf_checker *k)
{
	const struct conf_provider *p;
	char key[40];
	size_t i;
	int r;

	if (k->c->tools.n > 512)
		return refuse(k, k->c->at_tools, "tools: over 512 in all");
	for (i = 0; i < k->c->tools.n; i++) {
		struct conf_tool *t = &k->c->tools.v[i];

		snprintf(key, sizeof(key), "tools[%zu]", i);
		if (strncmp(t->name, OWN_TOOLS, strlen(OWN_TOOLS)) == 0)
			return refuse(k, t->at,
			    "%s.name: names that begin with " OWN_TOOLS " are Caisson's own",
			    key);
		p = find_provider(k->c, t->provider);
		if (!p)
			return refuse(k, t->at_provider,
			    "%s.provider: \"%.80s\" is not there, expected the id of a "
			    "provider",
			    key, t->provider);
		r = p->builtin == BUILTIN_FILES ? check_files_tool(k, t, key) : 0;
		if (r < 0 || (r = check_template(k, t, key)) < 0 ||
		    (r = check_annotations(k, t, key)) < 0)
			return r;
	}
	return 0;
}

/* The enabled ones: each has a tool, which may be Caisson's, or it is a slip of the pen. */
static int
check_namespaces(struct conf_checker *k)
{
	const struct conf_words *w = &k->c->tool_namespaces;
	size_t i, j;
	int r;

	r = conf_check_words(k, w, 256, k->c->at_tool_namespaces, "tool_namespaces");
	for (i = 0; i < w->n && r == 0; i++) {
		for (j = 0; j < k->c->tools.n; j++)
			if (!strcmp(k->c->tools.v[j].namespace, w->v[i]))
				break;
		if (j == k->c->tools.n && strcmp(w->v[i], ESCALATE_NAMESPACE) != 0)
			r = refuse(k, k->c->at_tool_namespaces,
			    "tool_namespaces[%zu]: \"%.80s\" is not there, expected the "
			    "namespace of a tool",
			    i, w->v[i]);
	}
	return r;
}

int
conf_complete(struct conf_namespace *c, const char *file, char err[CONF_ERROR_MAX])
{
	struct conf_checker k = { .c = c, .file = file, .err = err };
	int r;

	if (!c->limits.max_tool_calls)
		c->limits.max_tool_calls = c->limits.max_steps;
	if (!c->owner && !(c->owner = strdup(c->authority)))
		return no_memory(&k);
	c->version = 1;
	if ((r = add_builtin_tools(&k)) < 0 || (r = check_ids(&k)) < 0 ||
	    (r = conf_profiles_build(&k)) < 0 || (r = check_runtimes(&k)) < 0 ||
	    (r = check_providers(&k)) < 0 || (r = check_tools(&k)) < 0 ||
	    (r = check_namespaces(&k)) < 0 || (r = conf_check_grants(&k)) < 0 ||
	    (r = conf_check_principals(&k)) < 0 || (r = conf_check_gateway(&k)) < 0)
		return r;
	return 0;
}
