#include "common/protocol.h"

#include <assert.h>
#include <string.h>

#include "common/util.h"

#define REQUIRED true
#define OPTIONAL false
#define ANY_STATE (LINK_NEW | LINK_READY | LINK_BUSY)

/*
 * protocol.def, four times: names of enumerators; a look at their lengths and those of
 * methods, a field's being its key's; what a reply takes from its request;
 * one function per row, because only inside one can every field say `row` for its struct.
 */
#define ENUMERATION(type) static const char *const names_##type[] = {
#define V(type, name)	  #name,
#define ENUMERATION_END	  NULL };
#include "common/protocol.def"

#define IS_SHORT(name) _Static_assert(sizeof(name) - 1 <= FIELD_NAME_MAX, name " is too long");
#define V(type, name)				   IS_SHORT(#name)
#define REQUEST(id, method, from, to, states, doc) IS_SHORT(method)
#define NOTIFY(id, method, from, to, states, doc)  IS_SHORT(method)
#include "common/protocol.def"

enum {
#define REQUEST(id, method, from, to, states, doc) from_##id = (from), to_##id = (to),
#include "common/protocol.def"
};

#define ROW(row_id, row_kind, row_method, row_from, row_to, row_states, row_doc)	\
	static const struct msg_desc *desc_##row_id(void)				\
	{										\
		typedef struct msg_##row_id row;					\
		static const struct msg_desc desc = {					\
			.type = MSG_##row_id, .kind = (row_kind),			\
			.method = (row_method), .id = #row_id,				\
			.from = (row_from), .to = (row_to),				\
			.states = (row_states), .size = sizeof(row), .doc = (row_doc),	\
			.fields = {
#define FIELD(field, field_type, field_min, field_max, need, field_doc, ...)		\
	{ .name = #field, .name_n = sizeof(#field) - 1, .type = (field_type),		\
		.key = { 0xa0 | (sizeof(#field) - 1), #field },				\
		.offset = offsetof(row, field),						\
		.has_offset = offsetof(row, has_##field),				\
		.min = (field_min), .max = (field_max), .required = (need),		\
		.doc = (field_doc), __VA_ARGS__ },

#define REQUEST(id, method, from, to, states, doc) \
	ROW(id, MSG_REQUEST, method, from, to, states, doc)
#define NOTIFY(id, method, from, to, states, doc) \
	ROW(id, MSG_NOTIFY, method, from, to, states, doc)
#define REPLY(id) ROW(id##_reply, MSG_RESPONSE, NULL, to_##id, from_##id, ANY_STATE, "")
#define STR(field, min, max, need, doc)	 FIELD(field, FIELD_STR, min, max, need, doc)
#define BIN(field, min, max, need, doc)	 FIELD(field, FIELD_BIN, min, max, need, doc)
#define UINT(field, max, need, doc)	 FIELD(field, FIELD_UINT, 0, max, need, doc)
#define BOOL(field, need, doc)		 FIELD(field, FIELD_BOOL, 0, 1, need, doc)
#define ENUM(field, type, need, doc)				\
	FIELD(field, FIELD_ENUM, 0, countof(names_##type) - 2, need, doc,	\
	    .names = names_##type, .enumeration = #type)
#define VALUE(field, max, need, doc)	 FIELD(field, FIELD_VALUE, 1, max, need, doc)
#define MAP(field, max, need, doc)	 FIELD(field, FIELD_MAP, 1, max, need, doc)
#define LIST(field, max, need, doc)	 FIELD(field, FIELD_LIST, 1, max, need, doc)
#define ERROR(field, need, doc)		 FIELD(field, FIELD_ERROR, 0, 0, need, doc)
#define END							\
				{ .name = NULL }		\
			}					\
		};						\
		return &desc;					\
	}
#include "common/protocol.def"

const struct msg_desc *
protocol_desc(enum msg_type type)
{
	switch (type) {
#define REQUEST(id, method, from, to, states, doc) case MSG_##id: return desc_##id();
#define NOTIFY(id, method, from, to, states, doc)  case MSG_##id: return desc_##id();
#define REPLY(id) case MSG_##id##_reply: return desc_##id##_reply();
#include "common/protocol.def"
	case MSG_TYPE_MAX: break;
	}
	assert(!"no such row");
	return NULL;
}

/* Lengths beside each other: one frame compares a few bytes and then one name or two. */
static const struct {
	const char *name;
	uint8_t n;
	uint8_t type;
} methods[] = {
#define REQUEST(id, method, from, to, states, doc) { method, sizeof(method) - 1, MSG_##id },
#define NOTIFY(id, method, from, to, states, doc)  { method, sizeof(method) - 1, MSG_##id },
#include "common/protocol.def"
};
_Static_assert(MSG_TYPE_MAX <= UINT8_MAX, "a type does not fit its byte");

const struct msg_desc *
protocol_method(struct slice method)
{
	size_t i;

	for (i = 0; i < countof(methods); i++)
		if (methods[i].n == method.n &&
		    memcmp(methods[i].name, method.p, method.n) == 0)
			return protocol_desc(methods[i].type);
	return NULL;
}

const char *
protocol_name(enum msg_type type)
{
	switch (type) {
#define REQUEST(id, method, from, to, states, doc)			\
	case MSG_##id:							\
		return method;						\
	case MSG_##id##_reply:						\
		return method " reply";
#define NOTIFY(id, method, from, to, states, doc) case MSG_##id: return method;
#include "common/protocol.def"
	case MSG_TYPE_MAX: break;
	}
	return "unknown";
}
