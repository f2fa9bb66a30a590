/* grant: what a command line asks for, every mistake in it, and what answers look like. */
#include "client/grant_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "client/grant_document.h"
#include "client/grant_render.h"
#include "common/json.h"
#include "common/util.h"
#include "common/walk.h"

#define NOW 1795960414000u /* 2026-11-29T13:53:34Z */

static struct options o;
static struct grant_ask ask;
static struct buf shown;
static char err[GRANT_ERROR_MAX];

static void
forget(void)
{
	options_finish(&o);
	grant_ask_finish(&ask);
	ask = (struct grant_ask){ 0 };
	buf_finish(&shown);
	shown = (struct buf){ 0 };
}

static void
setup(void)
{
	unsetenv("CAISSON_CONFIG");
	unsetenv("CAISSON_STATE");
	unsetenv("CAISSON_SOCKET");
	memset(&o, 0, sizeof(o));
	forget();
}

static int
read_words(const char *const *words)
{
	static char *argv[32];
	int n = 0;

	forget();
	for (; words[n] != NULL; n++)
		argv[n] = (char *)(uintptr_t)words[n];
	ck_assert_msg(options_parse(COMMAND_grant, n, argv, &o, err) == 0, "%s", err);
	return grant_words_read(&o, NOW, &ask, err);
}

#define READ(...)                                                                              \
	ck_assert_msg(                                                                         \
	    read_words((const char *const[]){ "grant", __VA_ARGS__, NULL }) == 0, "%s", err)

static const char *
json_of(struct slice value)
{
	struct fault fault;

	buf_finish(&shown);
	shown = (struct buf){ 0 };
	ck_assert_int_eq(walk_value(value.p, value.n, &fault), 0);
	json_write(value, &shown);
	buf_add(&shown, "", 1);
	ck_assert(!shown.failed);
	return (const char *)shown.p;
}

static struct buf
packed(const char *text)
{
	char what[JSON_ERROR_MAX];
	struct buf b = { 0 };

	ck_assert_msg(json_read(text, &b, what) == 0, "%s: %s", text, what);
	return b;
}

static const char *
text_of(struct buf *b)
{
	buf_add(b, "", 1);
	ck_assert(!b->failed);
	return (const char *)b->p;
}

/* ---- good lines -------------------------------------------------------------------- */

#define CAPABILITY(namespace, scope, path, actions)                                            \
	"{\"namespace\":\"" namespace "\",\"scope\":\"" scope "\",\"path\":[" path             \
	"],\"actions\":[" actions "]}"

static const struct {
	const char *option, *text, *json;
} capabilities[] = {
	{ "--capability", "read:workspace:docs/a.txt",
	    CAPABILITY("workspace", "exact", "\"docs\",\"a.txt\"", "\"read\"") },
	{ "--capability", "read,list:workspace:docs/**",
	    CAPABILITY("workspace", "descendants", "\"docs\"", "\"read\",\"list\"") },
	{ "--capability", "*:db:**", CAPABILITY("db", "descendants", "", "\"*\"") },
	{ "--capability", "read:db:.", CAPABILITY("db", "exact", "", "\"read\"") },
	{ "--capability", "read:db:./**", CAPABILITY("db", "descendants", "", "\"read\"") },
	{ "--capability", "read:db:a:b/c", CAPABILITY("db", "exact", "\"a:b\",\"c\"", "\"read\"") },
	{ "--capability", "read:db:a**", CAPABILITY("db", "exact", "\"a**\"", "\"read\"") },
	{ "--allow", "read:docs/", CAPABILITY("workspace", "descendants", "\"docs\"", "\"read\"") },
	{ "--allow", "list:.", CAPABILITY("workspace", "descendants", "", "\"list\"") },
};

START_TEST(a_capability_is_what_its_text_says)
{
	char expected[512];

	READ("issue", "--subject", "agent:a", capabilities[_i].option, capabilities[_i].text);
	snprintf(expected, sizeof(expected), "[%s]", capabilities[_i].json);
	ck_assert_str_eq(json_of(ask.m.issue.capabilities), expected);
}
END_TEST

START_TEST(a_grant_may_be_for_one_call_or_for_an_ask)
{
	READ("issue", "--subject", "agent:a", "--call", "files.write", "{\"path\":\"x\"}");
	ck_assert(ask.m.issue.has_tool && slice_is(ask.m.issue.tool, "files.write"));
	ck_assert(ask.m.issue.has_arguments && !ask.m.issue.has_capabilities);
	ck_assert_str_eq(json_of(ask.m.issue.arguments), "{\"path\":\"x\"}");
	READ("issue", "--resolves", "e-1");
	ck_assert(slice_is(ask.m.issue.resolves, "e-1") && !ask.m.issue.has_subject);
	ck_assert(!ask.m.issue.has_capabilities && !ask.m.issue.has_tool);
	READ("issue", "--resolves", "e-1", "--capability", "read:db:.");
	ck_assert(ask.m.issue.has_resolves && ask.m.issue.has_capabilities);
	READ("derive", "g", "--subject", "agent:a", "--call", "t", "{}");
	ck_assert(ask.m.issue.has_parent && slice_is(ask.m.issue.parent, "g"));
	ck_assert_str_eq(json_of(ask.m.issue.arguments), "{}");
	READ("list", "--pending", "--subject", "agent:a");
	ck_assert_int_eq(ask.type, MSG_escalation_list);
	ck_assert(slice_is(ask.m.escalations.subject, "agent:a"));
}
END_TEST

START_TEST(every_option_of_a_grant_is_sent)
{
	READ("issue", "--id", "g", "--subject", "agent:a", "--issuer", "human:h", "--owner",
	    "group:o", "--capability", "read:w:x", "--allow", "write:out", "--not-before",
	    "2027-01-01T00:00:00Z", "--expires", "10m", "--max-uses", "3",
	    "--delegation-depth", "0", "--purpose", "a b", "--purpose", "c");
	ck_assert_int_eq(ask.type, MSG_grant_issue);
	ck_assert(slice_is(ask.m.issue.id, "g") && slice_is(ask.m.issue.subject, "agent:a"));
	ck_assert(slice_is(ask.m.issue.issuer, "human:h") && !ask.m.issue.has_parent);
	ck_assert_uint_eq(ask.m.issue.notBefore, 1798761600000);
	ck_assert_uint_eq(ask.m.issue.expiresAt, NOW + 600000);
	ck_assert_uint_eq(ask.m.issue.maxUses, 3);
	ck_assert(ask.m.issue.has_delegationDepth && ask.m.issue.delegationDepth == 0);
	ck_assert_str_eq(json_of(ask.m.issue.purposes), "[\"a b\",\"c\"]");
	ck_assert_str_eq(json_of(ask.m.issue.capabilities),
	    "[{\"namespace\":\"w\",\"owner\":\"group:o\",\"scope\":\"exact\",\"path\":[\"x\"],"
	    "\"actions\":[\"read\"]},{\"namespace\":\"workspace\",\"owner\":\"group:o\","
	    "\"scope\":\"descendants\",\"path\":[\"out\"],\"actions\":[\"write\"]}]");
}
END_TEST

START_TEST(what_is_left_out_is_not_sent)
{
	READ("derive", "--subject", "agent:b", "--capability", "r:w:x", "--", "-parent");
	ck_assert(ask.m.issue.has_parent && slice_is(ask.m.issue.parent, "-parent"));
	ck_assert(!ask.m.issue.has_id && !ask.m.issue.has_issuer && !ask.m.issue.has_purposes);
	ck_assert(!ask.m.issue.has_notBefore && !ask.m.issue.has_expiresAt);
	ck_assert(!ask.m.issue.has_maxUses && !ask.m.issue.has_delegationDepth);
	READ("list");
	ck_assert(ask.type == MSG_grant_list && !ask.m.list.has_subject);
	ck_assert_uint_gt(ask.m.list.limit, 0);
	READ("list", "--subject", "agent:b");
	ck_assert(slice_is(ask.m.list.subject, "agent:b"));
	READ("revoke", "--", "-g");
	ck_assert(ask.type == MSG_grant_revoke && slice_is(ask.m.revoke.id, "-g"));
	READ("why", "agent:b", "files.read", "{\"path\": \"x\"}");
	ck_assert(ask.type == MSG_grant_why && !ask.m.why.has_purpose);
	ck_assert_str_eq(json_of(ask.m.why.arguments), "{\"path\":\"x\"}");
}
END_TEST

/* ---- mistakes ---------------------------------------------------------------------- */

#define NO_ADDRESS "is no address, expected human:ID, agent:ID, group:ID or service:ID"
#define GIVE	   "issue", "--subject", "agent:a"

static const struct {
	const char *words[10];
	const char *message;
} mistakes[] = {
	{ { NULL }, "grant: needs list, issue, derive, revoke or why" },
	{ { "grant" }, "grant: \"grant\" is no verb: needs list, issue, derive, revoke or why" },
	{ { "list", "x" }, "grant list: x: one word too many, expected list" },
	{ { "revoke" }, "grant revoke: a word is missing, expected revoke ID" },
	{ { "revoke", "" }, "grant revoke: ID: is empty" },
	{ { "derive" }, "grant derive: a word is missing, expected derive PARENT" },
	{ { "why", "agent:a", "t" },
	    "grant why: a word is missing, expected why SUBJECT TOOL ARGUMENTS" },
	{ { "why", "a", "t", "{}" }, "grant why: SUBJECT: \"a\" " NO_ADDRESS },
	{ { "why", "agent:a", "t", "[]" }, "grant why: ARGUMENTS: is not a JSON object" },
	{ { "why", "agent:a", "t", "{\"a\":1,\"a\":2}" },
	    "grant why: ARGUMENTS: line 1, column 10: duplicate object key" },
	{ { "why", "agent:a", "t", "@/nowhere" },
	    "grant why: ARGUMENTS: /nowhere: No such file or directory" },
	{ { "why", "agent:a", "t", "{}", "--purpose", "a", "--purpose", "b" },
	    "grant why: --purpose: given twice: a call has one" },
	{ { "list", "--max-uses", "1" }, "grant list: --max-uses: not an option of grant list" },
	{ { "revoke", "g", "--subject", "agent:a" },
	    "grant revoke: --subject: not an option of grant revoke" },
	{ { "derive", "g", "--issuer", "human:h" },
	    "grant derive: --issuer: not an option of grant derive" },
	{ { "issue", "--id", "g", "--from", "f" },
	    "grant issue: --id: is the file's to say, with --from" },
	{ { "issue", "--from", "/nowhere" },
	    "grant issue: --from: /nowhere: No such file or directory" },
	{ { GIVE, "--call", "t" },
	    "grant issue: a word is missing, expected issue --call TOOL ARGUMENTS" },
	{ { GIVE, "--call", "t", "{}", "x" },
	    "grant issue: x: one word too many, expected issue --call TOOL ARGUMENTS" },
	{ { GIVE, "--call", "t", "[]" }, "grant issue: ARGUMENTS: is not a JSON object" },
	{ { "derive", "g", "--resolves", "e" },
	    "grant derive: --resolves: not an option of grant derive" },
	{ { GIVE, "--pending" }, "grant issue: --pending: not an option of grant issue" },
	{ { "issue" }, "grant issue: needs --subject KIND:ID, whose it is, or --from FILE" },
	{ { GIVE }, "grant issue: needs --capability ACTION:NAMESPACE:PATH, --allow ACTION:PATH "
		    "or --from FILE: what it allows" },
	{ { "issue", "--subject", "robot:a" },
	    "grant issue: --subject: \"robot:a\" " NO_ADDRESS },
	{ { "issue", "--subject", "agent:" }, "grant issue: --subject: \"agent:\" has no id, "
					      "expected human:ID, agent:ID, group:ID or "
					      "service:ID" },
	{ { GIVE, "--issuer", "x" }, "grant issue: --issuer: \"x\" " NO_ADDRESS },
	{ { GIVE, "--owner", "x" }, "grant issue: --owner: \"x\" " NO_ADDRESS },
	{ { GIVE, "--expires", "tomorrow" },
	    "grant issue: --expires: \"tomorrow\" is neither a time (2027-01-01T00:00:00Z) nor "
	    "a duration from now (10m)" },
	{ { GIVE, "--not-before", "-1s" },
	    "grant issue: --not-before: \"-1s\" is neither a time (2027-01-01T00:00:00Z) nor a "
	    "duration from now (10m)" },
	{ { GIVE, "--delegation-depth", "-1" },
	    "grant issue: --delegation-depth: \"-1\" is not a whole number" },
	{ { GIVE, "--capability", "read" },
	    "grant issue: --capability: \"read\" is not ACTION[,ACTION...]:NAMESPACE:PATH" },
	{ { GIVE, "--capability", "read:x" },
	    "grant issue: --capability: \"read:x\" is not ACTION[,ACTION...]:NAMESPACE:PATH" },
	{ { GIVE, "--capability", "read::x" },
	    "grant issue: --capability: \"read::x\" has no resource namespace" },
	{ { GIVE, "--capability", "read:w:" }, "grant issue: --capability: \"read:w:\" has no "
					       "path; . is the root, ** is everything" },
	{ { GIVE, "--capability", ":w:x" },
	    "grant issue: --capability: \":w:x\" has an empty action" },
	{ { GIVE, "--capability", "a,,b:w:x" },
	    "grant issue: --capability: \"a,,b:w:x\" has an empty action" },
	{ { GIVE, "--capability", "a:w:/x" },
	    "grant issue: --capability: \"a:w:/x\" has an empty segment" },
	{ { GIVE, "--capability", "a:w:x/" },
	    "grant issue: --capability: \"a:w:x/\" has an empty segment" },
	{ { GIVE, "--capability", "a:w:/**" },
	    "grant issue: --capability: \"a:w:/**\" has an empty segment" },
	{ { GIVE, "--capability", "a:w:x/../y" },
	    "grant issue: --capability: \"a:w:x/../y\" has a segment . or .." },
	{ { GIVE, "--allow", "read:a\nb" },
	    "grant issue: --allow: \"a\nb\" has a segment with a separator or control "
	    "character" },
};

START_TEST(every_mistake_names_the_word_and_its_value)
{
	const char *words[16] = { "grant" };
	size_t i;

	for (i = 0; i < countof(mistakes[_i].words) && mistakes[_i].words[i] != NULL; i++)
		words[i + 1] = mistakes[_i].words[i];
	ck_assert_int_eq(read_words(words), -EINVAL);
	ck_assert_str_eq(err, mistakes[_i].message);
}
END_TEST

/* ---- documents --------------------------------------------------------------------- */

static struct msg_grant_issue document;
static char why[GRANT_DOCUMENT_ERROR_MAX];

static int
read_document(const char *text)
{
	forget();
	document = (struct msg_grant_issue){ 0 };
	ck_assert_msg(json_read(text, &ask.document, why) == 0, "%s", why);
	return grant_document_read(
	    buf_slice(&ask.document), &document, &ask.capabilities, &ask.purposes, why);
}

#define RESOURCE "\"resource\":{\"namespace\":\"w\",\"path\":\"a/b\",\"scope\":\"exact\"}"
#define ABLE	 "\"capabilities\":[{" RESOURCE ",\"actions\":[\"read\"]}]"
#define WITH(x)	 "{\"subject\":\"agent:a\"," ABLE "," x "}"
#define IN(x)	 "{\"subject\":\"agent:a\",\"capabilities\":[{\"actions\":[\"r\"],\"resource\":{" x "}}]}"

START_TEST(a_document_is_a_grant_of_a_configuration)
{
	ck_assert_msg(
	    read_document(
		"{\"id\":\"g\",\"subject\":\"agent:a\",\"issuer\":\"human:h\",\"capabilities\":"
		"[{\"resource\":{\"namespace\":\"w\",\"path\":[\"a\",\"b\"],\"scope\":"
		"\"descendants\",\"owner\":\"human:o\"},\"actions\":[\"read\",\"*\"]},{" RESOURCE
		",\"actions\":[\"x\"]}],\"constraints\":{\"notBefore\":\"2027-01-01T00:00:00Z\","
		"\"expiresAt\":\"2027-01-02T00:00:00Z\",\"maxUses\":4294967295,"
		"\"delegationDepth\":2,\"purposes\":[\"p\"]}}") == 0,
	    "%s", why);
	ck_assert(slice_is(document.id, "g") && slice_is(document.issuer, "human:h"));
	ck_assert_uint_eq(document.notBefore, 1798761600000);
	ck_assert_uint_eq(document.expiresAt, 1798848000000);
	ck_assert_uint_eq(document.maxUses, UINT32_MAX);
	ck_assert_uint_eq(document.delegationDepth, 2);
	ck_assert(document.has_purposes);
	ck_assert_str_eq(json_of(buf_slice(&ask.purposes)), "[\"p\"]");
	ck_assert_str_eq(json_of(buf_slice(&ask.capabilities)),
	    "[{\"namespace\":\"w\",\"owner\":\"human:o\",\"scope\":\"descendants\",\"path\":"
	    "[\"a\",\"b\"],\"actions\":[\"read\",\"*\"]},{\"namespace\":\"w\",\"scope\":"
	    "\"exact\",\"path\":[\"a\",\"b\"],\"actions\":[\"x\"]}]");
	ck_assert_int_eq(read_document("{\"subject\":\"agent:a\"," ABLE "}"), 0);
	ck_assert(!document.has_id && !document.has_purposes && !document.has_maxUses);
}
END_TEST

static const struct {
	const char *text, *message;
} documents[] = {
	{ "[]", "is not an object" },
	{ "{}", "subject: is missing" },
	{ "{\"subject\":1}", "subject: is not a text" },
	{ "{\"subject\":\"\"}", "subject: is empty" },
	{ "{\"subject\":\"x\"}", "subject: \"x\" " NO_ADDRESS },
	{ "{\"subject\":\"agent:a\"}", "capabilities: is missing" },
	{ "{\"subject\":\"agent:a\",\"capabilities\":{}}", "capabilities: is not a list" },
	{ "{\"subject\":\"agent:a\",\"capabilities\":[1]}",
	    "capabilities: holds what is not an object" },
	{ WITH("\"x\":1"), "has a member \"x\", expected only id subject issuer capabilities "
			   "constraints" },
	{ WITH("\"subjec\":1"), "has a member \"subjec\", expected only id subject issuer "
				"capabilities constraints" },
	{ WITH("\"id\":\"a\\u0000b\""), "id: holds a NUL" },
	{ WITH("\"issuer\":\"x\""), "issuer: \"x\" " NO_ADDRESS },
	{ WITH("\"parent\":\"g\""), "parent: is a word of grant derive" },
	{ WITH("\"namespace\":\"default\""),
	    "namespace: is not to be said here: it is that of whoever issues the grant" },
	{ WITH("\"issuedAt\":\"2027-01-01T00:00:00Z\""),
	    "issuedAt: is not to be said here: it is that of whoever issues the grant" },
	{ WITH("\"constraints\":[]"), "constraints: is not an object" },
	{ WITH("\"constraints\":{\"max\":1}"),
	    "constraints: has a member \"max\", expected only notBefore expiresAt maxUses "
	    "delegationDepth purposes" },
	{ WITH("\"constraints\":{\"maxUses\":0}"), "constraints.maxUses: must be more than 0" },
	{ WITH("\"constraints\":{\"maxUses\":-1}"),
	    "constraints.maxUses: is not a whole number" },
	{ WITH("\"constraints\":{\"maxUses\":1.0}"),
	    "constraints.maxUses: is not a whole number" },
	{ WITH("\"constraints\":{\"maxUses\":4294967296}"),
	    "constraints.maxUses: is more than 4294967295" },
	{ WITH("\"constraints\":{\"expiresAt\":\"soon\"}"),
	    "constraints.expiresAt: \"soon\" is not an instant (2027-01-01T00:00:00Z)" },
	{ WITH("\"constraints\":{\"expiresAt\":1}"), "constraints.expiresAt: is not a text" },
	{ WITH("\"constraints\":{\"purposes\":[]}"), "constraints.purposes: is empty" },
	{ WITH("\"constraints\":{\"purposes\":[1]}"),
	    "constraints.purposes: holds what is not a text, or empty" },
	{ IN(""), "capabilities[0].resource.namespace: is missing" },
	{ IN("\"namespace\":\"w\""), "capabilities[0].resource.scope: is missing" },
	{ IN("\"namespace\":\"w\",\"scope\":\"all\""),
	    "capabilities[0].resource.scope: \"all\" is none of exact, descendants" },
	{ IN("\"namespace\":\"w\",\"scope\":\"exact\""),
	    "capabilities[0].resource.path: is missing" },
	{ IN("\"namespace\":\"w\",\"scope\":\"exact\",\"path\":1"),
	    "capabilities[0].resource.path: is neither a text nor a list, expected segments like "
	    "docs/notes, or . for the root" },
	{ IN("\"namespace\":\"w\",\"scope\":\"exact\",\"path\":[\"a/b\"]"),
	    "capabilities[0].resource.path: has a segment with a separator or control character, "
	    "expected segments like docs/notes, or . for the root" },
	{ IN("\"namespace\":\"w\",\"scope\":\"exact\",\"path\":\"\""),
	    "capabilities[0].resource.path: has an empty segment, expected segments like "
	    "docs/notes, or . for the root" },
	{ IN("\"namespace\":\"w\",\"scope\":\"exact\",\"owner\":\"o\""),
	    "capabilities[0].resource.owner: \"o\" " NO_ADDRESS },
	{ IN("\"name\":\"w\""), "capabilities[0].resource: has a member \"name\", expected only "
				"namespace owner path scope" },
	{ "{\"subject\":\"agent:a\",\"capabilities\":[{" RESOURCE "}]}",
	    "capabilities[0].actions: is missing" },
	{ "{\"subject\":\"agent:a\",\"capabilities\":[{" RESOURCE ",\"actions\":\"read\"}]}",
	    "capabilities[0].actions: is not a list" },
	{ "{\"subject\":\"agent:a\",\"capabilities\":[{\"actions\":[\"r\"]}]}",
	    "capabilities[0].resource: is missing" },
};

START_TEST(every_mistake_in_a_document_names_the_member)
{
	ck_assert_int_eq(read_document(documents[_i].text), -EINVAL);
	ck_assert_str_eq(why, documents[_i].message);
}
END_TEST

/* ---- answers ----------------------------------------------------------------------- */

#define DOCS                                                                                   \
	"{\"namespace\":\"workspace\",\"path\":[\"docs\"],\"scope\":\"descendants\","          \
	"\"actions\":[\"read\",\"list\"]}"
#define ROOT                                                                                   \
	"{\"namespace\":\"db\",\"path\":[],\"scope\":\"exact\",\"actions\":[\"*\"],\"owner\":" \
	"\"human:o\"}"
#define ALL                                                                                    \
	"{\"namespace\":\"db\",\"path\":[],\"scope\":\"descendants\",\"actions\":[\"x\"]}"
#define ONE                                                                                    \
	"{\"id\":\"g\\u001b[2J\",\"subject\":\"agent:a\",\"issuer\":\"human:h\",\"namespace\":" \
	"\"default\",\"capabilities\":[" DOCS "," ROOT "," ALL "],\"issuedAt\":1795960414000," \
	"\"maxUses\":3,\"spent\":1,\"delegationDepth\":2,\"purposes\":[\"p\",\"q\"],"          \
	"\"origin\":\"record\",\"state\":\"active\"}"
#define OTHER                                                                                  \
	"{\"id\":\"child\",\"subject\":\"agent:bb\",\"issuer\":\"agent:a\",\"namespace\":"     \
	"\"default\",\"parent\":\"g\",\"capabilities\":[" ALL "],\"issuedAt\":1795960414000,"  \
	"\"expiresAt\":1798761600000,\"notBefore\":1795960415000,\"revokedAt\":1795960416000," \
	"\"delegationDepth\":0,\"origin\":\"configuration\",\"state\":\"revoked\"}"

START_TEST(a_list_is_aligned_and_escaped)
{
	struct buf list = packed("[" ONE "," OTHER "]"), out = { 0 };
	struct grant_table t;

	grant_table_init(&t);
	grant_table_render(&t, true, &out);
	ck_assert_uint_eq(out.n, 0); /* no head without a row */
	grant_table_add(&t, buf_slice(&list));
	grant_table_render(&t, true, &out);
	ck_assert_str_eq(text_of(&out),
	    "ID        SUBJECT   ISSUER   STATE    USES    EXPIRES               PARENT  ALLOWS\n"
	    "g\\x1b[2J  agent:a   human:h  active   1 of 3  -                     -       "
	    "read,list:workspace:docs/**  *:db:.@human:o  x:db:**\n"
	    "    in default, issued 2026-11-29T13:53:34Z by record; for: p, q; may be handed on, 2 "
	    "deep\n"
	    "child     agent:bb  agent:a  revoked  -       2027-01-01T00:00:00Z  g       x:db:**\n"
	    "    in default, issued 2026-11-29T13:53:34Z by configuration, begins "
	    "2026-11-29T13:53:35Z, revoked 2026-11-29T13:53:36Z\n");
	buf_finish(&out);
	out = (struct buf){ 0 };
	grant_render_list_jsonl(buf_slice(&list), &out);
	ck_assert_str_eq(text_of(&out), ONE "\n" OTHER "\n");
	grant_table_finish(&t);
	buf_finish(&list);
	buf_finish(&out);
}
END_TEST

START_TEST(a_revocation_tells_what_goes_on)
{
	struct buf calls = packed("[{\"operation\":\"op-1\",\"call\":\"call-2\",\"tool\":"
				      "\"files.write\"}]"),
		   none = packed("[]"), out = { 0 };
	struct msg_grant_revoke_reply m = { .at = NOW, .dispatched = buf_slice(&none) };

	grant_render_revoked(slice_of("g\x1b"), &m, &out);
	m = (struct msg_grant_revoke_reply){
		.at = NOW, .already = true, .dispatched = buf_slice(&calls), .omitted = 7
	};
	grant_render_revoked(slice_of("g"), &m, &out);
	ck_assert_str_eq(text_of(&out),
	    "revoked g\\x1b at 2026-11-29T13:53:34Z\n"
	    "was revoked already: g, at 2026-11-29T13:53:34Z\n"
	    "calls that had begun, and go on:\n"
	    "  files.write  operation op-1  call call-2\n"
	    "  and 7 more: see caisson audit query\n");
	buf_finish(&out);
	buf_finish(&calls);
	buf_finish(&none);
}
END_TEST

static struct msg_grant_why_reply
answer(bool allowed, const char *code, struct slice path)
{
	struct msg_grant_why_reply m = {
		.allowed = allowed,
		.code = slice_of(code),
		.has_action = true,
		.action = slice_of("read"),
		.has_resource = true,
		.resource = slice_of("workspace"),
		.has_path = true,
		.path = path,
	};

	return m;
}

START_TEST(an_answer_is_yes_or_no_with_a_reason)
{
	struct buf path = packed("[\"docs\",\"a\"]"), root = packed("[]"), out = { 0 };
	struct msg_grant_why_reply m = answer(true, "allowed", buf_slice(&path));

	m.has_grant = true;
	m.grant = slice_of("g");
	ck_assert(grant_is_allowed(&m));
	grant_render_why(&m, true, &out);
	m.has_admission = true;
	m.admission = slice_of("no_matching_grant");
	ck_assert(!grant_is_allowed(&m));
	grant_render_why(&m, false, &out);
	m.admission = slice_of("allowed");
	ck_assert(grant_is_allowed(&m));
	m = answer(false, "no_matching_grant", buf_slice(&root));
	m.has_closest = m.has_cause = m.has_detail = true;
	m.closest = slice_of("g");
	m.cause = slice_of("path");
	m.detail = slice_of("needs \x1b");
	ck_assert(!grant_is_allowed(&m));
	grant_render_why(&m, false, &out);
	m = (struct msg_grant_why_reply){ .code = slice_of("tool_unavailable") };
	grant_render_why(&m, false, &out);
	ck_assert_str_eq(text_of(&out),
	    "\x1b[32myes\x1b[0m: it needs read:workspace:docs/a, which the grant g allows\n"
	    "no, a turn of it would not be admitted, no_matching_grant: it needs "
	    "read:workspace:docs/a, which the grant g allows\n"
	    "no, no_matching_grant: it needs read:workspace:.\n"
	    "  closest is the grant g\n"
	    "  what is missing: path: needs \\x1b\n"
	    "no, tool_unavailable\n");
	buf_finish(&out);
	buf_finish(&path);
	buf_finish(&root);
}
END_TEST

/* What a list shows can be given again. */
START_TEST(a_capability_reads_back_as_what_it_was_shown_as)
{
	static const char *const texts[] = { "read,list:workspace:docs/**", "*:db:.", "x:db:**",
		"read:w:a/b" };
	struct buf out = { 0 };
	struct slice list;
	size_t i;

	for (i = 0; i < countof(texts); i++) {
		READ(GIVE, "--capability", texts[i]);
		list = ask.m.issue.capabilities;
		value_next(&list);
		out.n = 0;
		grant_render_capability(value_skip(&list).raw, &out);
		ck_assert_str_eq(text_of(&out), texts[i]);
	}
	buf_finish(&out);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("grant");
	TCase *lines = tcase_create("lines"), *bad = tcase_create("mistakes"),
	      *file = tcase_create("documents"), *answers = tcase_create("answers");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(lines, setup, forget);
	tcase_add_loop_test(
	    lines, a_capability_is_what_its_text_says, 0, (int)countof(capabilities));
	tcase_add_test(lines, a_grant_may_be_for_one_call_or_for_an_ask);
	tcase_add_test(lines, every_option_of_a_grant_is_sent);
	tcase_add_test(lines, what_is_left_out_is_not_sent);
	tcase_add_checked_fixture(bad, setup, forget);
	tcase_add_loop_test(
	    bad, every_mistake_names_the_word_and_its_value, 0, (int)countof(mistakes));
	tcase_add_checked_fixture(file, setup, forget);
	tcase_add_test(file, a_document_is_a_grant_of_a_configuration);
	tcase_add_loop_test(
	    file, every_mistake_in_a_document_names_the_member, 0, (int)countof(documents));
	tcase_add_checked_fixture(answers, setup, forget);
	tcase_add_test(answers, a_list_is_aligned_and_escaped);
	tcase_add_test(answers, a_revocation_tells_what_goes_on);
	tcase_add_test(answers, an_answer_is_yes_or_no_with_a_reason);
	tcase_add_test(answers, a_capability_reads_back_as_what_it_was_shown_as);
	suite_add_tcase(s, lines);
	suite_add_tcase(s, bad);
	suite_add_tcase(s, file);
	suite_add_tcase(s, answers);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
