/*
 * grant_words: what the command line of `caisson grant` asks for.  Pure, but for the files that
 * it names.
 *
 *     capability   ACTION[,ACTION...]:NAMESPACE:PATH, exactly PATH; "." is the root.  With a
 *                  last segment "**" all below what is before it, too; "**" alone is everything
 *     when         2027-01-01T00:00:00Z, or a duration from now: 10m
 *     --from       JSON with the members of a configuration's grant (grant_document.h)
 *
 * What only the broker can know (does the parent stand, is the id taken) is the broker's to
 * say; what is wrong with a word is said here, with the option and the value.
 */
#ifndef CLIENT_GRANT_WORDS_H
#define CLIENT_GRANT_WORDS_H

#include "common/options.h"
#include "common/protocol.h"

#define GRANT_ERROR_MAX 1024 /* bytes of an error line, NUL included */

enum grant_verb { GRANT_LIST, GRANT_ISSUE, GRANT_DERIVE, GRANT_REVOKE, GRANT_WHY };

/* One request.  Starts as zeroes; its slices point into itself and into the options. */
struct grant_ask {
	enum grant_verb verb;
	enum msg_type type;
	union {
		struct msg_grant_list list;
		struct msg_escalation_list escalations; /* of list --pending */
		struct msg_grant_issue issue; /* of derive, too: with a parent */
		struct msg_grant_revoke revoke;
		struct msg_grant_why why;
	} m;
	struct buf document; /* of --from, packed */
	struct buf arguments; /* of why and --call, packed */
	struct buf capabilities, purposes;
};

/* "list", "issue", ... */
const char *grant_verb_name(enum grant_verb verb);

/*
 * Reads the words and options of `o`, which must live on, into `ret`, which starts as zeroes;
 * `now_ms` is since 1970.  Returns 0; or -EINVAL or -ENOMEM with one line in `err` that begins
 * with "grant" and names option and value.  `ret` is to be finished either way.
 */
int grant_words_read(const struct options *o, uint64_t now_ms, struct grant_ask *ret,
    char err[GRANT_ERROR_MAX]);
void grant_ask_finish(struct grant_ask *ask);

#endif /* CLIENT_GRANT_WORDS_H */
