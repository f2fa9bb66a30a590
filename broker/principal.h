/*
 * principal: who may be a client, and how one at the gateway's other end proves it.
 *
 * Owns a struct principal for each that the configuration names, one for the operator at the
 * local socket, and one for each that only the record names: it has sessions, and no rights.
 * One is kept while anybody holds it; what the configuration says of it is what the one in
 * force says, so that a reload changes it for everybody at once.
 */
#ifndef BROKER_PRINCIPAL_H
#define BROKER_PRINCIPAL_H

#include <sys/queue.h>

#include "broker/admissions.h"
#include "broker/config.h"

struct broker;
struct client;

#define PROOFS_FAILED_MAX 3 /* of one link; then it ends */
#define GATEWAY_LINKS_MAX 4096 /* of which the gateway may hold so many */
#define UID_NONE	  UINT32_MAX /* of a client without credentials */
#define UID_NOBODY	  65534 /* what the kernel calls everybody whom it cannot name */

struct principal {
	char *id; /* kind:id */
	bool local; /* the operator at the local socket */
	const struct config_principal *row; /* NULL: the configuration does not name it */
	uint32_t clients; /* links that are its own */
	uint32_t sessions; /* that it has open */
	struct admission_share keys; /* of its sessions, and of their acquisition */
	/* private */
	uint32_t users; /* principal_hold() */
	TAILQ_ENTRY(principal) entry; /* broker.principals */
};

/* How a client has shown who it is: looked up again after each reload. */
struct proof {
	bool by_uid, by_token, by_certificate;
	bool operator; /* so it was one, when it was looked up last */
	uint32_t uid;
	uint8_t token[SHA256_BYTES], certificate[SHA256_BYTES]; /* digests */
};

/* Who asked for something, for its record, when the client may be gone. */
struct asker {
	uint32_t uid; /* UID_NONE: it came through the gateway */
	struct principal *principal; /* held */
};

/* From b->config; 0 or -ENOMEM. */
int principals_start(struct broker *b);
void principals_finish(struct broker *b);
/*
 * What a configuration needs beside the one in force is made, before it is in force: then
 * principals_apply() cannot fail.  0 or -ENOMEM.
 */
int principals_prepare(struct broker *b, const struct config *next);
/*
 * b->config is another one: whose principal, token, certificate or uid it does not name, who is
 * not the operator any more, and who has more links than it may, is cut off now; nothing that
 * such a link has sent is looked at, and what it follows is followed no further.
 */
void principals_apply(struct broker *b);

/* One of that id, made if need be; held by nobody yet.  NULL if memory is out. */
struct principal *principal_named(struct broker *b, struct slice id);
struct principal *principal_hold(struct principal *p);
/* NULL is allowed. */
void principal_release(struct broker *b, struct principal *p);

/* Of a client that is proven; asker_forget() when it is on record. */
struct asker asker_of(const struct client *c);
struct asker asker_copy(const struct asker *a);
void asker_forget(struct broker *b, struct asker *a);
void asker_record(struct msg_record *m, const struct asker *a);

/* D-18.  NULL is nobody. */
bool principal_is_operator(const struct principal *p);
/* May it acquire sessions of that runtime? */
bool principal_may_runtime(const struct principal *p, const char *runtime);
/* May it know of, and use, what is `owner`'s? */
bool principal_sees(const struct principal *p, const struct principal *owner);
/* Counts a session as open; false: it has as many as it may.  Of the record: always true. */
bool principal_session_open(struct principal *p, bool recorded);
void principal_session_close(struct principal *p);

/*
 * A client has come: by its uid, if it has one (c->uid), it is a principal, or c->refused says
 * why not, or it is the gateway's and has to prove it.
 */
void principal_on_client(struct client *c);
void principal_on_client_end(struct client *c);
/*
 * principal.prove: compares with every digest there is, in the same time whichever it is, and
 * answers.  What was shown is neither kept, logged nor told (D-12); its digest is kept.
 */
void principal_prove(struct client *c, uint32_t msgid, const struct msg_principal_prove *m);

#endif /* BROKER_PRINCIPAL_H */
