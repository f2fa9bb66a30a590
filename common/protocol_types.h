/*
 * protocol_types: the enums and structs that protocol.def spells out.  Included by
 * protocol.h only.
 *
 * `ENUMERATION(call_status)` is `enum call_status`, with enumerators named
 * call_status_succeeded, call_status_denied, ...
 * A row `REQUEST(tool_invoke, ...)` is `struct msg_tool_invoke` and `MSG_tool_invoke`, its
 * reply `struct msg_tool_invoke_reply` and `MSG_tool_invoke_reply`.  Every field has a
 * companion `has_<field>`: after decoding it is true for what was there; for encoding it
 * must be set for the optional fields that are meant (required ones need not).
 */

#define ENUMERATION(type) enum type {
#define V(type, name)	  type##_##name,
#define ENUMERATION_END	  };
#include "common/protocol.def"

enum msg_type {
#define REQUEST(id, method, from, to, states, doc) MSG_##id,
#define NOTIFY(id, method, from, to, states, doc)  MSG_##id,
#define REPLY(id)				   MSG_##id##_reply,
#include "common/protocol.def"
	MSG_TYPE_MAX
};

#define REQUEST(id, method, from, to, states, doc) struct msg_##id { char has_nothing;
#define NOTIFY(id, method, from, to, states, doc)  struct msg_##id { char has_nothing;
#define REPLY(id)				   struct msg_##id##_reply { char has_nothing;
#define STR(field, min, max, need, doc)		   bool has_##field; struct slice field;
#define BIN(field, min, max, need, doc)		   bool has_##field; struct slice field;
#define UINT(field, max, need, doc)		   bool has_##field; uint64_t field;
#define BOOL(field, need, doc)			   bool has_##field; bool field;
#define ENUM(field, type, need, doc)		   bool has_##field; enum type field;
#define VALUE(field, max, need, doc)		   bool has_##field; struct slice field;
#define MAP(field, max, need, doc)		   bool has_##field; struct slice field;
#define LIST(field, max, need, doc)		   bool has_##field; struct slice field;
#define ERROR(field, need, doc)			   bool has_##field; struct wire_error field;
#define END					   };
#include "common/protocol.def"

union msg_any {
#define REQUEST(id, method, from, to, states, doc) struct msg_##id id;
#define NOTIFY(id, method, from, to, states, doc)  struct msg_##id id;
#define REPLY(id)				   struct msg_##id##_reply id##_reply;
#include "common/protocol.def"
};
