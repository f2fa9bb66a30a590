/*
 * grants: what the operator gives, takes, lists and asks about while the broker runs.
 */
#include "broker/broker.h"

void
grants_handle(struct client *c, const struct message *m)
{
	link_refuse(c->link, m->msgid, "unimplemented",
	    "grants of a running namespace are not offered by this version: put them into its "
	    "configuration", false);
}
