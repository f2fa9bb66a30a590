#include "client/verb.h"

#include <stdio.h>
#include <string.h>

#include "common/nearest.h"

/* What `typed` was probably meant to be; its `word` is NULL if nothing is near. */
static struct nearest
meant(verb_name_fn *name, const char *typed)
{
	struct nearest s;
	size_t i;

	nearest_init(&s, typed, strlen(typed));
	for (i = 0; name(i) != NULL; i++)
		nearest_offer(&s, name(i), strcspn(name(i), " "));
	return s;
}

void
verb_fault(const char *command, verb_name_fn *name, const char *typed, char ret[VERB_FAULT_MAX])
{
	struct nearest s = meant(name, typed != NULL ? typed : "");
	char all[VERB_FAULT_MAX / 2] = "", hint[NEAREST_MAX + 24] = "";
	size_t i, n = 0;

	for (i = 0; name(i) != NULL && n < sizeof(all); i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s",
		    i == 0 ? "" : name(i + 1) == NULL ? " or " : ", ", name(i));
	if (s.word != NULL)
		snprintf(hint, sizeof(hint), "did you mean %.*s? ", (int)s.nword, s.word);
	if (typed != NULL)
		snprintf(ret, VERB_FAULT_MAX, "%s: \"%.48s\" is no verb: %sneeds %s", command,
		    typed, hint, all);
	else
		snprintf(ret, VERB_FAULT_MAX, "%s: needs %s", command, all);
}
