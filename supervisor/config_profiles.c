#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/control.h"
#include "common/util.h"
#include "supervisor/config_private.h"
#include "supervisor/profiles.h"
#include "supervisor/profiles_rules.h"

#define refuse conf_check_refuse

#define MOUNTS_MAX 64 /* of one chamber, as of one list in config.def */
#define ERRNO_LAST EHWPOISON

/* The others are of Caisson's own programs. */
static const char *const nameable[] = { "native", "interpreter", "jit", "provider" };
#define NAMES_RUNTIME  "native, interpreter, jit"
#define NAMES_PROVIDER NAMES_RUNTIME ", provider"

static const struct profile *
builtin_named(const char *name)
{
	size_t i;

	for (i = 0; i < countof(nameable); i++)
		if (!strcmp(nameable[i], name))
			return profile_named(name);
	return NULL;
}

static const struct profile *
own_named(const struct conf_built *built, const char *name)
{
	size_t i;

	for (i = 0; built && i < built->n; i++)
		if (!strcmp(built->v[i]->name, name))
			return built->v[i];
	return NULL;
}

const struct profile *
conf_profile_named(const struct conf_namespace *c, const char *name)
{
	const struct profile *p = builtin_named(name);

	return p ? p : own_named(c->built, name);
}

/* What sees /libexec is for those who act for others. */
bool
conf_profile_fits(const struct conf_namespace *c, const char *name, bool runtime)
{
	const struct profile *p = conf_profile_named(c, name);

	return p && !(runtime && p->libexec);
}

/* Two mounts on one place: the second would hide the first. */
static const struct conf_mount *
mount_hidden(const struct profile *p, const char *target)
{
	size_t i;

	for (; p; p = p->base)
		for (i = 0; i < p->nmounts; i++)
			if (!strcmp(p->mounts[i].target, target))
				return &p->mounts[i];
	return NULL;
}

static int
check_hiding(struct conf_checker *k, const struct profile *p, const struct conf_mount *v,
    size_t n, const char *key)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (mount_hidden(p, v[i].target))
			return refuse(k, v[i].at_target,
			    "%s.mounts[%zu].target: is the place of a mount of the profile "
			    "%.64s (%.200s)",
			    key, i, p->name, v[i].target);
	return 0;
}

int
conf_check_profile(
    struct conf_checker *k, const char *name, bool runtime, struct node_at at, const char *key)
{
	const char *names = runtime ? NAMES_RUNTIME : NAMES_PROVIDER;

	if (!conf_profile_named(k->c, name))
		return refuse(k, at,
		    "%s.profile: \"%.64s\" is not there, expected %s or the id of one of "
		    "profiles",
		    key, name, names);
	if (!conf_profile_fits(k->c, name, runtime))
		return refuse(k, at,
		    "%s.profile: \"%.64s\" is for providers, expected %s or one with such a "
		    "base",
		    key, name, names);
	return 0;
}

int
conf_check_profile_mounts(struct conf_checker *k, const char *name, const struct conf_mount *v,
    size_t n, const char *app, bool workspace, const char *key)
{
	const struct profile *p = conf_profile_named(k->c, name), *base;
	size_t i;

	if (app && mount_hidden(p, "/app"))
		return refuse(k, k->c->at,
		    "%s.app: /app is the place of a mount of the profile %.64s", key, p->name);
	for (base = p; workspace && base; base = base->base)
		for (i = 0; i < base->nmounts; i++)
			if (conf_in_workspace(base->mounts[i].target))
				return refuse(k, k->c->at,
				    "%s.profile: a mount of %.64s lies in the workspace "
				    "(%.200s)",
				    key, base->name, base->mounts[i].target);
	return check_hiding(k, p, v, n, key);
}

/* ---- one rule ---------------------------------------------------------------------- */

/* Where in the file a check stands, and what it looks at. */
struct place {
	struct conf_checker *k;
	const struct conf_syscall *s;
	char key[80]; /* profiles[0].syscalls[3] */
};

static int
errno_named(const char *name)
{
	const char *s;
	int n;

	for (n = 1; n <= ERRNO_LAST; n++) {
		s = strerrorname_np(n);
		if (s && !strcmp(s, name))
			return n;
	}
	return !strcmp(name, "EWOULDBLOCK") ? EWOULDBLOCK
	       : !strcmp(name, "ENOTSUP")   ? ENOTSUP
					    : -ENOENT;
}

static int
read_action(const struct place *w, struct profile_rule *r)
{
	const char *action = w->s->action;

	if (!strcmp(action, "allow")) {
		r->action = PROFILE_ALLOW;
	} else if (!strcmp(action, "end")) {
		r->action = PROFILE_END;
	} else if (!strcmp(action, "base")) {
		r->action = PROFILE_BASE;
	} else {
		r->action = PROFILE_ERRNO;
		r->error = errno_named(action);
		if (r->error < 0)
			return refuse(w->k, w->s->at_action,
			    "%s.action: \"%.32s\" is none, expected allow, end, base or an "
			    "errno like EPERM",
			    w->key, action);
	}
	return 0;
}

/*
 * The kernel reads an int by its low half: comparing more of it would let a program choose
 * what the filter sees.  Of an address only NULL means anything, as what it points to changes.
 */
static int
fit_argument(const struct place *w, const struct conf_condition *c, char letter, size_t i,
    struct profile_condition *ret)
{
	uint64_t all = letter == 'I' ? UINT32_MAX : UINT64_MAX, value = c->equals;
	/* -100 as an int. */
	bool negative = value >> 31 == UINT64_MAX >> 31;

	if (letter == 'P' && (c->has_masked || value != 0))
		return refuse(w->k, c->at_equals,
		    "%s.when[%zu]: argument %ju is an address, expected equals: 0 and no "
		    "masked",
		    w->key, i, (uintmax_t)c->argument);
	if (c->has_masked && (c->masked == 0 || c->masked & ~all))
		return refuse(w->k, c->at_masked,
		    "%s.when[%zu].masked: %#jx is not of this argument, expected 1 to %#jx",
		    w->key, i, (uintmax_t)c->masked, (uintmax_t)all);
	if (letter == 'I' && negative && !c->has_masked)
		value &= UINT32_MAX;
	ret->argument = (unsigned)c->argument;
	ret->mask = c->has_masked ? c->masked : all;
	ret->value = value;
	if (value & ~ret->mask)
		return refuse(w->k, c->at_equals,
		    "%s.when[%zu].equals: %#jx never holds, as only %#jx of it is looked at",
		    w->key, i, (uintmax_t)value, (uintmax_t)ret->mask);
	return 0;
}

static int
read_condition(const struct place *w, size_t i, struct profile_rule *r)
{
	const struct conf_condition *c = &w->s->when.v[i];
	const char *letters = profile_arguments(w->s->name);
	unsigned j;

	if (!letters)
		return refuse(w->k, c->at, "%s.when[%zu]: %.64s has no argument to look at",
		    w->key, i, w->s->name);
	if (c->argument >= strlen(letters))
		return refuse(w->k, c->at_argument,
		    "%s.when[%zu].argument: %.64s has %zu, expected 0 to %zu", w->key, i,
		    w->s->name, strlen(letters), strlen(letters) - 1);
	for (j = 0; j < r->n; j++)
		if (r->when[j].argument == c->argument)
			return refuse(w->k, c->at_argument,
			    "%s.when[%zu].argument: has two conditions, expected one", w->key,
			    i);
	j = r->n++;
	return fit_argument(w, c, letters[c->argument], i, &r->when[j]);
}

static int
check_name(const struct place *w, struct profile_rule *r)
{
	const char *name = w->s->name, *why = profile_needed(name);

	r->nr = profile_syscall_number(name);
	if (r->nr == -ENOSYS)
		return refuse(w->k, w->s->at_name,
		    "%s.name: \"%.64s\" is no system call of this architecture", w->key, name);
	if (r->nr < 0)
		return refuse(w->k, w->s->at_name,
		    "%s.name: \"%.64s\" is no system call that this libseccomp knows", w->key,
		    name);
	if (why)
		return refuse(w->k, w->s->at_name, "%s.name: %.64s stays as it is, as %s",
		    w->key, name, why);
	return 0;
}

static int
read_rule(const struct place *w, struct profile_rule *r)
{
	const char *why;
	size_t i;
	int ret;

	memset(r, 0, sizeof(*r));
	if ((ret = check_name(w, r)) < 0 || (ret = read_action(w, r)) < 0)
		return ret;
	if (w->s->has_when && (w->s->when.n == 0 || r->action == PROFILE_BASE))
		return refuse(w->k, w->s->at_when, "%s.when: %s", w->key,
		    w->s->when.n == 0 ? "is empty, expected a condition, or no when"
				      : "is there beside action: base, which takes all");
	for (i = 0; i < w->s->when.n; i++)
		if ((ret = read_condition(w, i, r)) < 0)
			return ret;
	why = r->action == PROFILE_ALLOW ? profile_never(w->s->name, r) : NULL;
	if (why)
		return refuse(w->k, w->s->at_action,
		    "%s.action: no profile allows %.64s%s, as %s; expected end or an errno",
		    w->key, w->s->name,
		    r->n > 0 || profile_arguments(w->s->name) ? " with these arguments" : "",
		    why);
	return 0;
}

/* ---- one profile ------------------------------------------------------------------- */

static bool
is_id(const char *s)
{
	if (!islower((unsigned char)*s))
		return false;
	for (; *s; s++)
		if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) &&
		    !strchr("._-", *s))
			return false;
	return true;
}

static int
refuse_optional(struct conf_checker *k, const struct conf_profile *c, const char *key, size_t i)
{
	char names[300] = "";
	uint32_t layer;

	for (layer = 1; layer < LAYER_MAX; layer++)
		if (LAYERS_OPTIONAL & 1u << layer) {
			strlcat(names, *names ? ", " : "", sizeof(names));
			strlcat(names, layer_name(layer), sizeof(names));
		}
	return refuse(k, c->at_optional,
	    "%s.optional[%zu]: \"%.40s\" is no layer that may be absent, expected some of %s",
	    key, i, c->optional.v[i], names);
}

static int
read_optional(
    struct conf_checker *k, const struct conf_profile *c, const char *key, uint32_t *ret)
{
	uint32_t layer, optional = 0;
	size_t i;

	for (i = 0; i < c->optional.n; i++) {
		for (layer = 1; layer < LAYER_MAX; layer++)
			if (!strcmp(layer_name(layer), c->optional.v[i]))
				break;
		if (layer == LAYER_MAX || !(LAYERS_OPTIONAL & 1u << layer))
			return refuse_optional(k, c, key, i);
		optional |= 1u << layer;
	}
	*ret = optional;
	return 0;
}

/* Nobody else may be in reach of a socket that can be made; one half of a pair that gets a name
 * takes it away from everybody in the namespace, and tells them that it is there. */
static int
check_shared(
    struct conf_checker *k, const struct profile *p, struct node_at at, const char *key)
{
	static const char *const alone[] = { "socket", "bind", "connect" };
	const struct profile_rule *rules;
	size_t i, j, n;

	if (p->network != NETWORK_SHARED)
		return 0;
	if (profile_rules(p, false, &rules, &n) < 0)
		return conf_check_no_memory(k);
	for (i = 0; i < n; i++)
		for (j = 0; j < countof(alone); j++)
			if (rules[i].action == PROFILE_ALLOW &&
			    rules[i].nr == profile_syscall_number(alone[j]))
				return refuse(k, at,
				    "%s.network: is shared and %s is allowed, expected own", key,
				    alone[j]);
	return 0;
}

static int
set_limits(
    struct conf_checker *k, const struct conf_profile *c, const char *key, struct profile *p)
{
	if (c->has_mdwe)
		p->mdwe = c->mdwe;
	if (c->has_network)
		p->network = (enum profile_network)c->network;
	if (c->has_memory)
		p->memory_bytes = c->memory;
	if (c->has_tmp)
		p->tmp_bytes = c->tmp;
	if (c->has_file_size)
		p->file_bytes = c->file_size;
	if (c->has_cpu)
		p->cpu_percent = c->cpu;
	if (c->has_cpu_time)
		p->cpu_seconds = c->cpu_time / 1000;
	if (c->has_pids)
		p->pids = (unsigned)c->pids;
	if (c->has_open_files)
		p->open_files = (unsigned)c->open_files;
	if (c->has_cpu_time && c->cpu_time % 1000)
		return refuse(k, c->at_cpu_time, "%s.cpu_time: expected whole seconds", key);
	return c->has_optional ? read_optional(k, c, key, &p->optional) : 0;
}

/* Of itself and all its bases: what one chamber can hold. */
static int
count_mounts(
    struct conf_checker *k, const struct profile *p, struct node_at at, const char *key)
{
	size_t n = 0;

	for (; p; p = p->base)
		n += p->nmounts;
	return n <= MOUNTS_MAX ? 0
			       : refuse(k, at, "%s.mounts: over %d with those of its base", key,
				     MOUNTS_MAX);
}

static int
create(struct conf_checker *k, const struct conf_profile *c, const struct profile *base,
    const char *key, struct profile **ret)
{
	struct profile_rule *rules = calloc(c->syscalls.n + 1, sizeof(*rules));
	struct place w = { .k = k };
	const char *text = NULL;
	size_t i, fault = 0;
	int r = 0;

	if (!rules)
		return conf_check_no_memory(k);
	for (i = 0; i < c->syscalls.n && r == 0; i++) {
		w.s = &c->syscalls.v[i];
		snprintf(w.key, sizeof(w.key), "%s.syscalls[%zu]", key, i);
		r = read_rule(&w, &rules[i]);
	}
	if (r == 0) {
		r = profile_create(c->id, base, rules, c->syscalls.n, ret, &fault, &text);
		if (r == -EINVAL)
			refuse(k, c->syscalls.v[fault].at, "%s.syscalls[%zu]: %.64s %s", key,
			    fault, c->syscalls.v[fault].name, text);
		else if (r == -ENOMEM)
			conf_check_no_memory(k);
		else if (r < 0)
			r = refuse(k, c->at_syscalls,
			    "%s.syscalls: is more than a filter holds, expected fewer", key);
	}
	free(rules);
	return r;
}

static int
check_profile(struct conf_checker *k, const struct conf_profile *c, const char *key,
    const struct profile **ret_base)
{
	if (!is_id(c->id))
		return refuse(k, c->at_id,
		    "%s.id: expected a-z, 0-9, - _ and . beginning with a letter", key);
	if (profile_named(c->id))
		return refuse(
		    k, c->at_id, "%s.id: %s is built in, expected another", key, c->id);
	*ret_base = conf_profile_named(k->c, c->base);
	if (!*ret_base)
		return refuse(k, c->at_base,
		    "%s.base: \"%.64s\" is not there, expected " NAMES_PROVIDER
		    " or a profile further up",
		    key, c->base);
	return 0;
}

static int
build(struct conf_checker *k, size_t i)
{
	const struct conf_profile *c = &k->c->profiles.v[i];
	const struct profile *base;
	struct profile *p = NULL;
	char key[40];
	int r;

	snprintf(key, sizeof(key), "profiles[%zu]", i);
	if ((r = check_profile(k, c, key, &base)) < 0 ||
	    (r = conf_check_env(k, &c->env, c->at_env, key)) < 0 ||
	    (r = conf_check_mounts(k, c->mounts.v, c->mounts.n, NULL, false, key)) < 0 ||
	    (r = check_hiding(k, base, c->mounts.v, c->mounts.n, key)) < 0 ||
	    (r = create(k, c, base, key, &p)) < 0)
		return r;
	k->c->built->v[k->c->built->n++] = p;
	p->mounts = c->mounts.v;
	p->nmounts = c->mounts.n;
	p->env = &c->env;
	if ((r = set_limits(k, c, key, p)) < 0 ||
	    (r = count_mounts(k, p, c->at_mounts, key)) < 0)
		return r;
	return check_shared(k, p, c->has_network ? c->at_network : c->at_syscalls, key);
}

int
conf_profiles_build(struct conf_checker *k)
{
	size_t i, n = k->c->profiles.n;
	int r = 0;

	if (k->c->built)
		return 0;
	k->c->built = calloc(1, sizeof(*k->c->built) + n * sizeof(k->c->built->v[0]));
	if (!k->c->built)
		return conf_check_no_memory(k);
	for (i = 0; i < n && r == 0; i++)
		r = build(k, i);
	return r;
}

void
conf_profiles_destroy(struct conf_built *built)
{
	size_t i;

	for (i = 0; built && i < built->n; i++)
		profile_destroy(built->v[i]);
	free(built);
}
