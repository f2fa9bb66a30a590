#include "supervisor/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/config_compare.h"
#include "supervisor/front.h"
#include "supervisor/host.h"
#include "supervisor/notify.h"
#include "supervisor/pack.h"
#include "supervisor/setup.h"

#define KEYS_MAX 1500 /* bytes of a list of keys in a line of the log */

/* Some keys, as a line says them. */
struct keys {
	char text[KEYS_MAX];
	size_t n, omitted;
};

struct reload {
	struct options o; /* borrowed, but for the path */
	char *path;	  /* absolute: the daemon goes to / */
	struct host *const *host;
	bool asked;	  /* and not begun */
	struct keys applied, restart;
	struct buf gateway; /* what follows for the gateway; empty: nothing */
	/* of the one that is being looked at */
	struct conf_change refused; /* key NULL: none is */
	char refused_key[128];
};

/* ---- what is said ------------------------------------------------------------------ */

/* The two instants between which whoever started us knows that it is on its way. */
static void
tell_reloading(void)
{
	struct timespec now;
	char state[80];

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
	    (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
	notify_send(state);
}

/* It is over, however it went: the daemon is as ready as before. */
static void
tell_ready(const char *status)
{
	char state[600];

	snprintf(state, sizeof(state), "READY=1\nSTATUS=%.500s", status);
	notify_send(state);
}

static void
refuse(const char *why)
{
	log_error("SIGHUP: %s: nothing has changed", why);
	tell_ready("the last reload changed nothing: see the log");
}

static void
keys_add(struct keys *k, const char *key, enum conf_how how)
{
	static const char *const hows[] = {
		[CONF_CHANGED] = "", [CONF_NEW] = " (new)", [CONF_GONE] = " (gone)"
	};
	int n = snprintf(k->text + k->n, KEYS_MAX - k->n, "%s%.300s%s", k->n ? ", " : "", key,
	    hows[how]);

	if (k->omitted || (size_t)n >= KEYS_MAX - k->n) {
		k->text[k->n] = '\0';
		k->omitted++;
		return;
	}
	k->n += (size_t)n;
}

static void
log_keys(const char *what, const struct keys *k, const char *behind)
{
	char more[40] = "";

	if (k->omitted)
		snprintf(more, sizeof(more), " and %zu more", k->omitted);
	log_info("SIGHUP: %s: %s%s%s", what, k->text, more, behind);
}

/* ---- what is different ------------------------------------------------------------- */

static void
note_change(const struct conf_change *c, void *arg)
{
	struct reload *r = arg;

	if (c->effect == CONF_IDENTITY && !r->refused.key) {
		r->refused = *c;
		strlcpy(r->refused_key, c->key, sizeof(r->refused_key));
		r->refused.key = r->refused_key;
	}
	keys_add(c->effect == CONF_RESTART ? &r->restart : &r->applied, c->key, c->how);
}

static bool
any(const struct keys *k)
{
	return k->n > 0 || k->omitted > 0;
}

static void
compare(struct reload *r, const struct conf_namespace *c)
{
	memset(&r->applied, 0, sizeof(r->applied));
	memset(&r->restart, 0, sizeof(r->restart));
	r->refused.key = NULL;
	conf_compare(host_config(*r->host), c, note_change, r);
}

static void
log_restart(const struct reload *r)
{
	if (any(&r->restart))
		log_keys("needs a restart", &r->restart, "; until then it is what it was");
}

/* ---- one reload -------------------------------------------------------------------- */

/* Its certificates may be new, whatever the file says. */
static int
read_gateway(struct reload *r, const struct conf_namespace *c, char err[CONF_ERROR_MAX])
{
	front_forget(&r->gateway);
	return c->has_gateway ? pack_gateway(&r->gateway, c, r->path, err) : 0;
}

static void
tell_gateway(struct reload *r)
{
	if (r->gateway.n > 0 && host_gateway_config(*r->host, &r->gateway) < 0)
		log_error("SIGHUP: the gateway keeps what it had: out of memory");
	front_forget(&r->gateway);
}

/* To the broker with it.  Takes `s`.  With -EINVAL, `err` says why. */
static int
hand_over(struct reload *r, struct setup *s, char err[CONF_ERROR_MAX])
{
	struct conf_namespace *c = malloc(sizeof(*c));
	int ret = c ? conf_keep(&s->config, host_config(*r->host)) : -ENOMEM;

	if (ret == 0 && read_gateway(r, &s->config, err) < 0)
		ret = -EINVAL;
	if (ret < 0) {
		free(c);
		setup_finish(s);
		return ret;
	}
	*c = s->config;
	ret = host_reload(*r->host, c, s->timeout_ms);
	if (ret < 0) {
		conf_finish(c);
		free(c);
	}
	return ret;
}

static void
begin(struct reload *r)
{
	char err[CONF_ERROR_MAX];
	struct setup s;
	int ret;

	r->asked = false;
	tell_reloading();
	ret = setup_daemon(&r->o, &s, err);
	STOP_POINT("supervisor.reload_read");
	if (ret == 0)
		compare(r, &s.config);
	if (ret == 0 && r->refused.key)
		ret = conf_refuse(err, r->path, r->refused.at,
		    "%s: is what it was until caissond is restarted", r->refused.key);
	if (ret == 0)
		ret = host_check(*r->host, r->path, &s.config, err);
	if (ret == 0 && !any(&r->applied))
		ret = read_gateway(r, host_config(*r->host), err);
	if (ret < 0) {
		setup_finish(&s);
		refuse(err);
		return;
	}
	if (!any(&r->applied)) {
		setup_finish(&s);
		tell_gateway(r);
		log_info("SIGHUP: %s: nothing else is in it that could apply now; those that wait "
			 "for a session are made anew", r->path);
		log_restart(r);
		host_refresh(*r->host);
		tell_ready("serving");
		return;
	}
	ret = hand_over(r, &s, err);
	if (ret == -EINVAL)
		refuse(err);
	else if (ret == -EBUSY)
		refuse("sessions are open under as many configurations as there may be (try "
		       "again when the oldest have ended)");
	else if (ret < 0)
		refuse(strerror(-ret));
}

void
reload_on_ready(struct reload *r)
{
	if (r->asked && host_is_ready(*r->host))
		begin(r);
}

void
reload_ask(struct reload *r)
{
	r->asked = true;
	reload_on_ready(r);
	if (r->asked)
		log_info("SIGHUP: the configuration is read again as soon as a broker can take it");
}

void
reload_on_answer(struct reload *r, int error, enum config_row_kind row, uint32_t index,
    const struct conf_namespace *c)
{
	char err[CONF_ERROR_MAX];

	if (error == 0) {
		tell_gateway(r);
		log_keys("in force from now on", &r->applied, "");
		log_restart(r);
		tell_ready("serving");
	} else if (error == -EPIPE) {
		refuse("the broker died before it had the configuration");
	} else if (error == -EINVAL || error == -EEXIST) {
		conf_refuse_row(err, r->path, c, row, index);
		refuse(err);
	} else {
		refuse(strerror(-error));
	}
	reload_on_ready(r);
}

void
reload_on_gateway(struct reload *r, int error, uint32_t index)
{
	const struct conf_namespace *c = host_config(*r->host);
	char err[CONF_ERROR_MAX];

	if (error == 0) {
		log_info("SIGHUP: the gateway goes by its limits and certificates, read again");
		return;
	}
	conf_refuse(err, r->path,
	    index < c->gateway.listen.n ? c->gateway.listen.v[index].at : c->at_gateway,
	    "the gateway does not take it (%s): do certificate and key belong together?",
	    strerror(-error));
	log_error("%s", err);
}

/* ---- making it --------------------------------------------------------------------- */

struct reload *
reload_create(const struct options *o, struct host *const *host)
{
	struct reload *r = calloc(1, sizeof(*r));
	cleanup_free char *cwd = NULL;

	if (!r)
		return NULL;
	if (o->config[0] == '/') {
		r->path = strdup(o->config);
	} else {
		cwd = getcwd(NULL, 0);
		if (!cwd || asprintf(&r->path, "%s/%s", cwd, o->config) < 0)
			r->path = NULL;
	}
	if (!r->path) {
		free(r);
		return NULL;
	}
	r->o = *o;
	r->o.config = r->path;
	r->host = host;
	return r;
}

void
reload_destroy(struct reload *r)
{
	if (!r)
		return;
	front_forget(&r->gateway);
	free(r->path);
	free(r);
}
