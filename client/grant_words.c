#include "client/grant_words.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/grant_document.h"
#include "client/input.h"
#include "client/verb.h"
#include "common/util.h"
#include "common/walk.h"

struct words {
	const struct options *o;
	uint64_t now_ms;
	struct grant_ask *ask;
	char *err;
};

#define GRANT_PAGE 1000 /* grants asked for at once */
#define GIVES (1u << GRANT_ISSUE | 1u << GRANT_DERIVE)

static const struct {
	const char *name, *synopsis;
	size_t nwords; /* its own among them */
	enum msg_type type;
} verbs[] = {
	[GRANT_LIST] = { "list", "list", 1, MSG_grant_list },
	[GRANT_ISSUE] = { "issue", "issue", 1, MSG_grant_issue },
	[GRANT_DERIVE] = { "derive", "derive PARENT", 2, MSG_grant_issue },
	[GRANT_REVOKE] = { "revoke", "revoke ID", 2, MSG_grant_revoke },
	[GRANT_WHY] = { "why", "why SUBJECT TOOL ARGUMENTS", 4, MSG_grant_why },
};

/* Options that only some verbs take. */
static const struct {
	const char *name;
	unsigned verbs;
	bool document; /* --from says it, too */
} taken[] = {
	{ "allow", GIVES, true },
	{ "call", GIVES, false },
	{ "capability", GIVES, true },
	{ "delegation-depth", GIVES, true },
	{ "expires", GIVES, true },
	{ "from", GIVES, false },
	{ "id", GIVES, true },
	{ "issuer", 1u << GRANT_ISSUE, true },
	{ "max-uses", GIVES, true },
	{ "not-before", GIVES, true },
	{ "owner", GIVES, true },
	{ "pending", 1u << GRANT_LIST, false },
	{ "purpose", GIVES | 1u << GRANT_WHY, true },
	{ "resolves", 1u << GRANT_ISSUE, false },
	{ "subject", GIVES | 1u << GRANT_LIST, true },
};

const char *
grant_verb_name(enum grant_verb verb)
{
	return verbs[verb].name;
}

__attribute__((format(printf, 2, 3))) static int
refuse(struct words *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(w->err, GRANT_ERROR_MAX, "grant %s: ", verbs[w->ask->verb].name);
	va_start(ap, fmt);
	vsnprintf(w->err + n, GRANT_ERROR_MAX - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* ---- single values ----------------------------------------------------------------- */

static int
take_address(struct words *w, const char *name, const char *text, struct slice *ret)
{
	const char *fault = options_address_fault(text);

	if (fault != NULL)
		return refuse(w,
		    "%s: \"%.80s\" %s, expected human:ID, agent:ID, group:ID or service:ID",
		    name, text, fault);
	*ret = slice_of(text);
	return 0;
}

/* Ids and purposes: what a frame could not carry is said before one is made. */
static int
take_text(struct words *w, const char *name, const char *text, size_t max, struct slice *ret)
{
	if (*text == '\0')
		return refuse(w, "%s: is empty", name);
	if (strlen(text) > max)
		return refuse(w, "%s: \"%.32s...\" is over %zu bytes", name, text, max);
	*ret = slice_of(text);
	return 0;
}

static int
take_when(struct words *w, const char *name, const char *text, uint64_t *ret)
{
	uint64_t ms;

	if (options_parse_time(text, ret) == 0)
		return 0;
	if (options_parse_duration(text, &ms) < 0)
		return refuse(w,
		    "--%s: \"%.64s\" is neither a time (2027-01-01T00:00:00Z) nor a duration "
		    "from now (10m)",
		    name, text);
	*ret = w->now_ms + ms;
	return 0;
}

/* ---- capabilities ------------------------------------------------------------------ */

static void
pack_head(struct words *w, struct buf *out, struct slice namespace, bool descendants)
{
	grant_pack_head(out, namespace,
	    w->o->has_resource_owner ? slice_of(w->o->resource_owner) : (struct slice){ 0 },
	    slice_of(descendants ? "descendants" : "exact"));
}

/* Names with a comma between them. */
static const char *
pack_actions(struct buf *out, const char *text, size_t n)
{
	const char *s, *end;
	uint32_t count = 1;

	for (s = text; s < text + n; s++)
		count += *s == ',';
	pack_str(out, "actions");
	pack_array(out, count);
	for (s = text; count > 0; s = end + 1, count--) {
		end = memchr(s, ',', (size_t)(text + n - s));
		end = end != NULL ? end : text + n;
		if (end == s)
			return "has an empty action";
		pack_str_n(out, s, (size_t)(end - s));
	}
	return NULL;
}

static const char *
pack_capability(struct words *w, struct buf *out, const char *text)
{
	const char *namespace = strchr(text, ':'), *path, *fault;
	bool descendants;
	size_t n;

	path = namespace != NULL ? strchr(namespace + 1, ':') : NULL;
	if (path == NULL)
		return "is not ACTION[,ACTION...]:NAMESPACE:PATH";
	if (path == namespace + 1)
		return "has no resource namespace";
	n = strlen(path + 1);
	if (n == 0)
		return "has no path; . is the root, ** is everything";
	descendants = n >= 2 && strcmp(path + 1 + n - 2, "**") == 0 &&
		      (n == 2 || path[1 + n - 3] == '/');
	pack_head(w, out,
	    (struct slice){ (const uint8_t *)namespace + 1, (size_t)(path - namespace - 1) },
	    descendants);
	pack_str(out, "path");
	if (descendants && n == 2)
		fault = grant_pack_path(out, ".", 1);
	else
		fault = grant_pack_path(out, path + 1, descendants ? n - 3 : n);
	if (fault == NULL)
		fault = pack_actions(out, text, (size_t)(namespace - text));
	return fault;
}

static const char *
pack_allow(struct words *w, struct buf *out, const struct option_pair *allow)
{
	const char *s = allow->right, *segment, *fault = NULL;
	uint32_t count = 0;
	size_t n;

	while (options_next_segment(&s, &segment) > 0)
		count++;
	pack_head(w, out, slice_of(WORKSPACE_NAMESPACE), true);
	pack_str(out, "path");
	pack_array(out, count);
	for (s = allow->right; fault == NULL && (n = options_next_segment(&s, &segment)) > 0;) {
		fault = options_segment_fault(segment, n);
		pack_str_n(out, segment, n);
	}
	pack_str(out, "actions");
	pack_array(out, 1);
	pack_str(out, allow->left);
	return fault;
}

static int
pack_capabilities(struct words *w)
{
	const struct options *o = w->o;
	struct buf *out = &w->ask->capabilities;
	const char *fault;
	size_t i;

	if (o->capability.n + o->allow.n == 0 && (o->has_call_tool || o->has_resolves))
		return 0; /* what that call needs, and nothing else */
	if (o->capability.n + o->allow.n == 0)
		return refuse(w, "needs --capability ACTION:NAMESPACE:PATH, --allow "
				 "ACTION:PATH or --from FILE: what it allows");
	pack_array(out, (uint32_t)(o->capability.n + o->allow.n));
	for (i = 0; i < o->capability.n; i++) {
		fault = pack_capability(w, out, o->capability.item[i].left);
		if (fault != NULL)
			return refuse(w, "--capability: \"%.200s\" %s",
			    o->capability.item[i].left, fault);
	}
	for (i = 0; i < o->allow.n; i++) {
		fault = pack_allow(w, out, &o->allow.item[i]);
		if (fault != NULL)
			return refuse(
			    w, "--allow: \"%.200s\" %s", o->allow.item[i].right, fault);
	}
	return 0;
}

static int
pack_purposes(struct words *w)
{
	const struct option_pairs *p = &w->o->purpose;
	struct slice text = { 0 };
	size_t i;
	int r;

	pack_array(&w->ask->purposes, (uint32_t)p->n);
	for (i = 0; i < p->n; i++) {
		r = take_text(w, "--purpose", p->item[i].left, 512, &text);
		if (r < 0)
			return r;
		pack_str_n(&w->ask->purposes, text.p, text.n);
	}
	return 0;
}

/* ---- verbs ------------------------------------------------------------------------- */

static int
read_list(struct words *w)
{
	struct msg_grant_list *m = &w->ask->m.list;
	struct msg_escalation_list *asks = &w->ask->m.escalations;

	if (w->o->pending) {
		w->ask->type = MSG_escalation_list;
		asks->has_subject = w->o->has_subject;
		return asks->has_subject
			   ? take_address(w, "--subject", w->o->subject, &asks->subject)
			   : 0;
	}
	m->limit = GRANT_PAGE;
	m->has_subject = w->o->has_subject;
	return m->has_subject ? take_address(w, "--subject", w->o->subject, &m->subject) : 0;
}

static int
read_from(struct words *w)
{
	const char *path = w->o->from;
	char why[GRANT_DOCUMENT_ERROR_MAX], err[JSON_ERROR_MAX];
	cleanup_free char *text = input_read(path, err);
	struct grant_ask *ask = w->ask;
	int r;

	if (text == NULL)
		return refuse(w, "--from: %s", err);
	r = json_read(text, &ask->document, err);
	if (r == -EINVAL)
		return refuse(w, "--from: %.200s: %s", path, err);
	if (r == 0)
		r = grant_document_read(buf_slice(&ask->document), &ask->m.issue,
		    &ask->capabilities, &ask->purposes, why);
	if (r == -EINVAL)
		return refuse(w, "--from: %.200s: %s", path, why);
	if (r == 0 && ask->verb == GRANT_DERIVE && ask->m.issue.has_issuer)
		return refuse(
		    w, "--from: %.200s: issuer: is the parent's subject, leave it out", path);
	return r;
}

static int
read_depth(struct words *w)
{
	struct msg_grant_issue *m = &w->ask->m.issue;

	m->has_delegationDepth = w->o->has_delegation_depth;
	if (m->has_delegationDepth &&
	    options_parse_number(w->o->delegation_depth, UINT32_MAX, &m->delegationDepth) < 0)
		return refuse(w, "--delegation-depth: \"%.64s\" is not a whole number",
		    w->o->delegation_depth);
	return 0;
}

static int
read_options(struct words *w)
{
	struct msg_grant_issue *m = &w->ask->m.issue;
	const struct options *o = w->o;
	struct slice owner;
	int r;

	m->has_subject = o->has_subject;
	if (!o->has_subject && !o->has_resolves)
		return refuse(w, "needs --subject KIND:ID, whose it is, or --from FILE");
	m->has_id = o->has_grant_id;
	m->has_issuer = o->has_issuer;
	m->has_notBefore = o->has_not_before;
	m->has_expiresAt = o->has_expires;
	m->has_maxUses = o->has_max_uses;
	m->maxUses = o->max_uses;
	m->has_purposes = o->purpose.n > 0;
	if ((m->has_subject &&
		(r = take_address(w, "--subject", o->subject, &m->subject)) < 0) ||
	    (m->has_id && (r = take_text(w, "--id", o->grant_id, 256, &m->id)) < 0) ||
	    (m->has_issuer &&
		(r = take_address(w, "--issuer", o->issuer, &m->issuer)) < 0) ||
	    (o->has_resource_owner &&
		(r = take_address(w, "--owner", o->resource_owner, &owner)) < 0) ||
	    (m->has_notBefore &&
		(r = take_when(w, "not-before", o->not_before, &m->notBefore)) < 0) ||
	    (m->has_expiresAt &&
		(r = take_when(w, "expires", o->expires, &m->expiresAt)) < 0) ||
	    (r = read_depth(w)) < 0 || (r = pack_purposes(w)) < 0)
		return r;
	return pack_capabilities(w);
}

/* A word of the command line that is a JSON object: the arguments of a call. */
static int
take_arguments(struct words *w, const char *text, struct buf *packed, struct slice *ret)
{
	char err[JSON_ERROR_MAX];
	struct slice s;
	int r = input_pack(text, packed, err);

	if (r < 0)
		return refuse(w, "ARGUMENTS: %s", r == -EINVAL ? err : "out of memory");
	*ret = s = buf_slice(packed);
	return value_next(&s).type == VALUE_MAP
		   ? 0
		   : refuse(w, "ARGUMENTS: is not a JSON object");
}

static int
read_call(struct words *w)
{
	struct msg_grant_issue *m = &w->ask->m.issue;
	const struct options *o = w->o;
	int r = 0;

	m->has_resolves = o->has_resolves;
	if (o->has_resolves)
		r = take_text(w, "--resolves", o->resolves, 64, &m->resolves);
	if (r < 0 || !o->has_call_tool)
		return r;
	m->has_tool = m->has_arguments = true;
	r = take_text(w, "--call", o->call_tool, 256, &m->tool);
	return r < 0 ? r
		     : take_arguments(w, o->words[o->nwords - 1], &w->ask->arguments,
			   &m->arguments);
}

static int
read_issue(struct words *w)
{
	struct msg_grant_issue *m = &w->ask->m.issue;
	int r;

	m->has_parent = w->ask->verb == GRANT_DERIVE;
	r = m->has_parent ? take_text(w, "PARENT", w->o->words[1], 256, &m->parent) : 0;
	if (r == 0)
		r = w->o->has_from ? read_from(w) : read_options(w);
	if (r == 0)
		r = read_call(w);
	if (r == 0 && (w->ask->capabilities.failed || w->ask->purposes.failed)) {
		refuse(w, "out of memory");
		return -ENOMEM;
	}
	m->has_capabilities = w->ask->capabilities.n > 0;
	m->capabilities = buf_slice(&w->ask->capabilities);
	m->purposes = buf_slice(&w->ask->purposes);
	return r;
}

static int
read_revoke(struct words *w)
{
	return take_text(w, "ID", w->o->words[1], 256, &w->ask->m.revoke.id);
}

static int
read_why(struct words *w)
{
	struct msg_grant_why *m = &w->ask->m.why;
	const struct options *o = w->o;
	int r;

	m->has_purpose = o->purpose.n > 0;
	if (o->purpose.n > 1)
		return refuse(w, "--purpose: given twice: a call has one");
	if ((r = take_address(w, "SUBJECT", o->words[1], &m->subject)) < 0 ||
	    (r = take_text(w, "TOOL", o->words[2], 256, &m->tool)) < 0 ||
	    (m->has_purpose && (r = take_text(w, "--purpose", o->purpose.item[0].left, 512,
				    &m->purpose)) < 0))
		return r;
	return take_arguments(w, o->words[3], &w->ask->arguments, &m->arguments);
}

static const char *
verb_name(size_t i)
{
	return i < countof(verbs) ? verbs[i].name : NULL;
}

static int
find_verb(struct words *w)
{
	const struct options *o = w->o;
	const char *call;
	size_t i, nwords;

	for (i = 0; i < countof(verbs); i++)
		if (o->nwords > 0 && strcmp(o->words[0], verbs[i].name) == 0)
			break;
	if (i == countof(verbs)) {
		verb_fault("grant", verb_name, o->nwords > 0 ? o->words[0] : NULL, w->err);
		return -EINVAL;
	}
	w->ask->verb = (enum grant_verb)i;
	w->ask->type = verbs[i].type;
	nwords = verbs[i].nwords + (o->has_call_tool && (GIVES & 1u << i) ? 1 : 0);
	call = nwords > verbs[i].nwords ? " --call TOOL ARGUMENTS" : "";
	if (o->nwords > nwords)
		return refuse(w, "%.64s: one word too many, expected %s%s", o->words[nwords],
		    verbs[i].synopsis, call);
	if (o->nwords < nwords)
		return refuse(w, "a word is missing, expected %s%s", verbs[i].synopsis, call);
	return 0;
}

/* What was given and is another verb's, or is said by --from as well. */
static int
check_options(struct words *w)
{
	const struct option_desc *d;
	size_t i;

	for (d = option_descs; d->name != NULL; d++) {
		if (!(d->commands & COMMAND_grant) ||
		    !*(const bool *)((const char *)w->o + d->has))
			continue;
		for (i = 0; i < countof(taken) && strcmp(taken[i].name, d->name) != 0; i++)
			;
		if (i == countof(taken))
			continue;
		if (!(taken[i].verbs & 1u << w->ask->verb))
			return refuse(w, "--%s: not an option of grant %s", d->name,
			    verbs[w->ask->verb].name);
		if (w->o->has_from && taken[i].document)
			return refuse(w, "--%s: is the file's to say, with --from", d->name);
	}
	return 0;
}

int
grant_words_read(const struct options *o, uint64_t now_ms, struct grant_ask *ret,
    char err[GRANT_ERROR_MAX])
{
	static int (*const readers[])(struct words *w) = {
		[GRANT_LIST] = read_list,
		[GRANT_ISSUE] = read_issue,
		[GRANT_DERIVE] = read_issue,
		[GRANT_REVOKE] = read_revoke,
		[GRANT_WHY] = read_why,
	};
	struct words w = { .o = o, .now_ms = now_ms, .ask = ret, .err = err };
	int r;

	snprintf(err, GRANT_ERROR_MAX, "grant: out of memory");
	r = find_verb(&w);
	if (r == 0)
		r = check_options(&w);
	return r < 0 ? r : readers[ret->verb](&w);
}

void
grant_ask_finish(struct grant_ask *ask)
{
	buf_finish(&ask->document);
	buf_finish(&ask->arguments);
	buf_finish(&ask->capabilities);
	buf_finish(&ask->purposes);
}
