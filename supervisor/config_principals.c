#include <string.h>
#include <strings.h>

#include "common/options.h"
#include "common/util.h"
#include "supervisor/config_private.h"

#define refuse	   conf_check_refuse
#define DIGEST_HEX 64 /* SHA-256 */

/* What clients are known by, beyond what one field alone can say. */

/* Is the text one of the first `n`?  Digits of both cases mean the same. */
static bool
says(const struct conf_words *w, size_t n, const char *text)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcasecmp(w->v[i], text))
			return true;
	return false;
}

static bool
is_digest(const char *s)
{
	return strlen(s) == DIGEST_HEX && s[strspn(s, "0123456789abcdefABCDEF")] == '\0';
}

static bool
is_uid(const char *s)
{
	uint64_t uid;

	return (*s != '0' || !s[1]) && options_parse_number(s, UINT32_MAX - 1, &uid) == 0;
}

/* One way to be known by.  Nobody else has it, or who comes with it would be two. */
struct way {
	const char *name, *expected;
	bool (*is_one)(const char *s);
	size_t words, at; /* offsets in struct conf_principal */
};

static const struct way ways[] = {
	{ "tokens", "the SHA-256 of a token, 64 hexadecimal digits", is_digest,
	    offsetof(struct conf_principal, tokens), offsetof(struct conf_principal, at_tokens) },
	{ "certificates", "the SHA-256 of a certificate, 64 hexadecimal digits", is_digest,
	    offsetof(struct conf_principal, certificates),
	    offsetof(struct conf_principal, at_certificates) },
	{ "uids", "a uid", is_uid, offsetof(struct conf_principal, uids),
	    offsetof(struct conf_principal, at_uids) },
};

static const struct conf_words *
words_of(const struct conf_principal *p, const struct way *w)
{
	return (const struct conf_words *)(const void *)((const char *)p + w->words);
}

static int
check_way(struct conf_checker *k, size_t i, const struct way *w)
{
	const struct conf_principal *v = k->c->principals.v;
	const struct conf_words *words = words_of(&v[i], w);
	struct node_at at = *(const struct node_at *)(const void *)((const char *)&v[i] + w->at);
	size_t j, other;

	for (j = 0; j < words->n; j++) {
		if (!w->is_one(words->v[j]))
			return refuse(k, at, "principals[%zu].%s[%zu]: expected %s", i, w->name,
			    j, w->expected);
		if (says(words, j, words->v[j]))
			return refuse(
			    k, at, "principals[%zu].%s[%zu]: stands there twice", i, w->name, j);
		for (other = 0; other < i; other++)
			if (says(words_of(&v[other], w), words_of(&v[other], w)->n, words->v[j]))
				return refuse(k, at,
				    "principals[%zu].%s[%zu]: is principals[%zu]'s, expected "
				    "another",
				    i, w->name, j, other);
	}
	return 0;
}

static int
check_runtimes(struct conf_checker *k, size_t i)
{
	const struct conf_principal *p = &k->c->principals.v[i];
	char key[60];
	size_t j, t;
	int r;

	snprintf(key, sizeof(key), "principals[%zu].runtimes", i);
	r = conf_check_words(k, &p->runtimes, 256, p->at_runtimes, key);
	for (j = 0; j < p->runtimes.n && r == 0; j++) {
		if (!strcmp(p->runtimes.v[j], "*"))
			continue;
		for (t = 0; t < k->c->runtimes.n; t++)
			if (!strcmp(k->c->runtimes.v[t].id, p->runtimes.v[j]))
				break;
		if (t == k->c->runtimes.n)
			r = refuse(k, p->at_runtimes,
			    "%s[%zu]: \"%.80s\" is not there, expected the id of a runtime, or "
			    "\"*\"",
			    key, j, p->runtimes.v[j]);
	}
	return r;
}

int
conf_check_principals(struct conf_checker *k)
{
	const struct conf_principal *p;
	size_t i, w;
	int r = 0;

	for (i = 0; i < k->c->principals.n && r == 0; i++) {
		p = &k->c->principals.v[i];
		if (p->tokens.n + p->certificates.n + p->uids.n == 0)
			return refuse(k, p->at,
			    "principals[%zu]: has neither tokens, certificates nor uids, "
			    "expected one that it is known by",
			    i);
		for (w = 0; w < countof(ways) && r == 0; w++)
			r = check_way(k, i, &ways[w]);
		if (r == 0)
			r = check_runtimes(k, i);
	}
	return r;
}
