/* fields and routes: what single parts of a request say, and which handler it is for. */
#include "gateway/fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "common/util.h"
#include "gateway/routes.h"
#include "gateway/status.h"

#define BASE "/v1/namespaces/n/runtimes/r/sessions"
#define ID16 "0123456789abcdef"

static uint8_t text[8192];
static struct request request;

/* A request with these lines behind its own; it lives until the next. */
static const struct request *
ask(const char *line, const char *headers)
{
	const struct http_limits limits = { sizeof(text), 0 };
	struct http_scan scan = { 0 };
	struct http_fault fault = { 0 };
	int n = snprintf(
	    (char *)text, sizeof(text), "%s HTTP/1.1\r\nHost: h:1\r\n%s\r\n", line, headers);

	ck_assert_msg(http_measure(&scan, &limits, text, (size_t)n, &fault) == 1 &&
			  http_read(&scan, text, &request, &fault) == 0,
	    "%s: %s", line, fault.message);
	return &request;
}

static const struct {
	const char *headers;
	bool socket;
	int result;
	const char *token; /* NULL: none */
} proofs[] = {
	{ "", false, -ENOENT, NULL },
	{ "Authorization: Bearer abc\r\n", false, 0, "abc" },
	{ "authorization: bEARER   a-b._~+/9==\r\n", false, 0, "a-b._~+/9==" },
	{ "Authorization: Bearer\r\n", false, -EINVAL, NULL },
	{ "Authorization: Bearer a=b\r\n", false, -EINVAL, NULL },
	{ "Authorization: Bearer =\r\n", false, -EINVAL, NULL },
	{ "Authorization: Bearer a,b\r\n", false, -EINVAL, NULL },
	{ "Authorization: Basic YTpi\r\n", false, -EINVAL, NULL },
	{ "Authorization: abc\r\n", false, -EINVAL, NULL },
	{ "Sec-WebSocket-Protocol: caisson, caisson.bearer.t-1\r\n", true, 0, "t-1" },
	{ "Sec-WebSocket-Protocol: caisson, caisson.bearer.t-1\r\n", false, -ENOENT, NULL },
	{ "Sec-WebSocket-Protocol: caisson\r\nSec-WebSocket-Protocol: caisson.bearer.x\r\n",
	    true, 0, "x" },
	{ "Sec-WebSocket-Protocol: caisson.bearer.\r\n", true, -ENOENT, NULL },
	{ "Sec-WebSocket-Protocol: caisson.bearer.a|b\r\n", true, -EINVAL, NULL },
	{ "Sec-WebSocket-Protocol: caisson.bearer.a, caisson.bearer.b\r\n", true, -EINVAL, NULL },
	{ "Sec-WebSocket-Protocol: caisson.bearer.a\r\nSec-WebSocket-Protocol: caisson, "
	  "caisson.bearer.a\r\n",
	    true, -EINVAL, NULL },
	{ "Authorization: Bearer h\r\nSec-WebSocket-Protocol: caisson.bearer.s\r\n", true, 0,
	    "h" },
	{ "Authorization: Basic x\r\nSec-WebSocket-Protocol: caisson.bearer.s\r\n", true,
	    -EINVAL, NULL },
};

START_TEST(a_proof_is_a_token_or_a_certificate)
{
	const struct request *r = ask("GET /", proofs[_i].headers);
	struct proof proof;

	ck_assert_int_eq(fields_proof(r, proofs[_i].socket, &proof), proofs[_i].result);
	ck_assert_int_eq(proof.has_token, proofs[_i].token != NULL);
	if (proof.has_token)
		ck_assert(slice_is(proof.token, proofs[_i].token));
	/* With a certificate, what was said before counts first, and a wrong word is not mended. */
	request.has_certificate = true;
	ck_assert_int_eq(fields_proof(r, proofs[_i].socket, &proof),
	    proofs[_i].result == -ENOENT ? 0 : proofs[_i].result);
	ck_assert_int_eq(proof.has_certificate, proofs[_i].result == -ENOENT);
}
END_TEST

static const struct {
	const char *origin;
	bool secure, ours;
} origins[] = {
	{ "http://h:1", false, true },
	{ "HTTP://H:1", false, true },
	{ "https://h:1", true, true },
	{ "http://h:1", true, false },
	{ "https://h:1", false, false },
	{ "http://h", false, false },
	{ "http://h:1/", false, false },
	{ "http://h:11", false, false },
	{ "http://h:1.evil", false, false },
	{ "http://evil@h:1", false, false },
	{ "null", false, false },
	{ "", false, false },
};

START_TEST(an_origin_is_ours_whole_or_not)
{
	char header[128];

	snprintf(header, sizeof(header), "Origin: %s\r\n", origins[_i].origin);
	ask("GET /", header);
	request.secure = origins[_i].secure;
	ck_assert_int_eq(fields_origin_is_ours(&request), origins[_i].ours);
	ask("GET /", "");
	ck_assert(fields_origin_is_ours(&request));
}
END_TEST

static const struct {
	const char *host;
	bool bound; /* to no name that its owner may point elsewhere */
} hosts[] = {
	{ "", true }, /* HTTP/1.0 */
	{ "localhost", true },
	{ "LOCALHOST:9100", true },
	{ "127.0.0.1", true },
	{ "127.0.0.1:9100", true },
	{ "10.1.2.3:9100", true },
	{ "[::1]", true },
	{ "[::1]:9100", true },
	{ "[fe80::1]:1", true },
	{ "evil.example", false },
	{ "evil.example:9100", false },
	{ "localhost.evil.example", false },
	{ "evil.localhost", false },
	{ "localhos", false },
	{ "localhost:", false },
	{ "localhost:x", false },
	{ "localhost:1:2", false },
	{ "127.0.0.1.evil.example:9100", false },
	{ "127.0.0.1:", false },
	{ "127.1", false },
	{ "2130706433", false },
	{ "::1", false },
	{ "[::1", false },
	{ "[::1]x", false },
	{ "[::1].evil.example", false },
	{ "[evil.example]:1", false },
	{ "[]", false },
	{ ":9100", false },
	{ "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd]", false },
};

START_TEST(a_host_is_localhost_or_an_address_or_nobodys)
{
	struct request r = { .host = slice_of(hosts[_i].host) };

	ck_assert_msg(fields_host_is_bound(&r) == hosts[_i].bound, "%s", hosts[_i].host);
}
END_TEST

static const struct {
	const char *value, *trace;
} traces[] = {
	{ "00-" ID16 ID16 "-" ID16 "-01", ID16 ID16 },
	{ "00-" ID16 ID16 "-" ID16 "-00", ID16 ID16 },
	{ "01-" ID16 ID16 "-" ID16 "-ff-more", ID16 ID16 },
	{ "01-" ID16 ID16 "-" ID16 "-ffmore", NULL },
	{ "00-" ID16 ID16 "-" ID16 "-01-more", NULL },
	{ "ff-" ID16 ID16 "-" ID16 "-01", NULL },
	{ "0-" ID16 ID16 "-" ID16 "-01", NULL },
	{ "00_" ID16 ID16 "-" ID16 "-01", NULL },
	{ "00-" ID16 ID16 "-" ID16 "-0", NULL },
	{ "00-" ID16 ID16 "-" ID16 "-0g", NULL },
	{ "00-" ID16 "0123456789ABCDEF-" ID16 "-01", NULL },
	{ "00-00000000000000000000000000000000-" ID16 "-01", NULL },
	{ "00-" ID16 ID16 "-0000000000000000-01", NULL },
	{ "", NULL },
};

START_TEST(a_trace_has_the_form_of_the_w3c)
{
	struct slice trace;
	bool valid = fields_traceparent(slice_of(traces[_i].value), &trace);

	ck_assert_int_eq(valid, traces[_i].trace != NULL);
	if (valid)
		ck_assert(slice_is(trace, traces[_i].trace));
}
END_TEST

/* The last header once more. */
static const struct request *
twice(const char *header)
{
	ask("GET /", header);
	request.headers[request.nheaders] = request.headers[request.nheaders - 1];
	request.nheaders++;
	return &request;
}

START_TEST(what_stands_twice_is_refused)
{
	struct proof proof;
	struct slice s;

	ck_assert_int_eq(fields_trace(ask("GET /", ""), &s), 0);
	ck_assert_int_eq(fields_key(ask("GET /", ""), &s), 0);
	ck_assert_int_eq(fields_key(ask("GET /", "Idempotency-Key: a.B-9_\r\n"), &s), 1);
	ck_assert(slice_is(s, "a.B-9_"));
	ck_assert_int_eq(fields_key(ask("GET /", "Idempotency-Key: \"a\"\r\n"), &s), -EINVAL);
	/* The parser lets none of these pass; what reads them relies on nothing. */
	ck_assert_int_eq(fields_key(twice("Idempotency-Key: a\r\n"), &s), -EINVAL);
	ck_assert_int_eq(
	    fields_trace(twice("traceparent: 00-" ID16 ID16 "-" ID16 "-01\r\n"), &s), -EINVAL);
	ck_assert_int_eq(
	    fields_proof(twice("Authorization: Bearer a\r\n"), false, &proof), -EINVAL);
	ck_assert(!fields_origin_is_ours(twice("Origin: http://h:1\r\n")));
}
END_TEST

static const struct {
	const char *text;
	uint64_t max, number;
	bool valid;
} numbers[] = {
	{ "0", 9, 0, true },
	{ "9", 9, 9, true },
	{ "10", 9, 0, false },
	{ "18446744073709551615", UINT64_MAX, UINT64_MAX, true },
	{ "18446744073709551616", UINT64_MAX, 0, false },
	{ "99999999999999999999999", UINT64_MAX, 0, false },
	{ "1", 0, 0, false },
	{ "01", 9, 0, false },
	{ "+1", 9, 0, false },
	{ "-1", 9, 0, false },
	{ "1 ", 9, 0, false },
	{ "", 9, 0, false },
};

START_TEST(a_number_is_digits_within_its_bound)
{
	uint64_t n = 0;

	ck_assert_int_eq(
	    fields_number(slice_of(numbers[_i].text), numbers[_i].max, &n), numbers[_i].valid);
	ck_assert_uint_eq(n, numbers[_i].number);
}
END_TEST

static const struct {
	const char *value;
	bool valid, suffix;
	uint64_t first, last;
} ranges[] = {
	{ "bytes=0-0", true, false, 0, 0 },
	{ "bytes=5-", true, false, 5, UINT64_MAX },
	{ "bytes=-5", true, true, 5, 0 },
	{ "Bytes=1-2", true, false, 1, 2 },
	{ "bytes=2-1", false, false, 0, 0 },
	{ "bytes=-", false, false, 0, 0 },
	{ "bytes=", false, false, 0, 0 },
	{ "bytes=1", false, false, 0, 0 },
	{ "bytes=1-2,4-5", false, false, 0, 0 },
	{ "bytes=1-18446744073709551616", false, false, 0, 0 },
	{ "bytes=1-18446744073709551615", false, false, 0, 0 },
	{ "bytes 1-2", false, false, 0, 0 },
	{ "items=1-2", false, false, 0, 0 },
};

START_TEST(a_range_is_a_single_one_of_bytes)
{
	char header[128];
	struct range range = { 0 };

	snprintf(header, sizeof(header), "Range: %s\r\n", ranges[_i].value);
	ck_assert_int_eq(fields_range(ask("GET /", header), &range), ranges[_i].valid);
	if (ranges[_i].valid) {
		ck_assert_int_eq(range.suffix, ranges[_i].suffix);
		ck_assert_uint_eq(range.first, ranges[_i].first);
		if (!range.suffix)
			ck_assert_uint_eq(range.last, ranges[_i].last);
	}
	ck_assert(!fields_range(ask("HEAD /", header), &range));
}
END_TEST

static const struct {
	const char *line;
	const char *allow; /* NULL: there is a route */
} lines[] = {
	{ "GET " BASE, NULL },
	{ "HEAD " BASE, NULL },
	{ "POST " BASE, NULL },
	{ "DELETE " BASE, "POST, GET, HEAD" },
	{ "GET " BASE "/", "" },
	{ "GET " BASE "/s", NULL },
	{ "DELETE " BASE "/s", NULL },
	{ "PUT " BASE "/s", "GET, HEAD, DELETE" },
	{ "GET " BASE "/s/", "" },
	{ "GET " BASE "/s/heartbeat", "POST" },
	{ "GET " BASE "/s/operations", NULL },
	{ "GET " BASE "/s/operations/o", NULL },
	{ "GET " BASE "/s/operations/o/x", "" },
	{ "GET " BASE "/s/operations:ws", NULL },
	{ "GET " BASE "/s/files/content", NULL },
	{ "GET " BASE "/s/files/other", "" },
	{ "GET /v1/namespaces/n/runtimes//sessions", "" },
	{ "GET /v2/namespaces/n/runtimes/r/sessions", "" },
	{ "GET /", "" },
};

START_TEST(a_path_has_its_methods)
{
	char allow[ROUTES_ALLOW_MAX];
	const struct request *r = ask(lines[_i].line, "");
	const struct route *route = routes_find(r, allow);

	ck_assert_int_eq(route != NULL, lines[_i].allow == NULL);
	if (route == NULL)
		ck_assert_str_eq(allow, lines[_i].allow);
	else
		ck_assert(
		    slice_is(routes_namespace(r), "n") && slice_is(routes_runtime(r), "r"));
}
END_TEST

START_TEST(a_query_has_the_members_of_its_route_once)
{
	char allow[ROUTES_ALLOW_MAX];
	const struct request *r = ask("GET " BASE "?limit=1&cursor=2", "");
	struct slice member;

	ck_assert(!routes_bad_member(routes_find(r, allow), r, &member));
	r = ask("GET " BASE "?limit=1&limits=2", "");
	ck_assert(routes_bad_member(routes_find(r, allow), r, &member));
	ck_assert(slice_is(member, "limits"));
	r = ask("GET " BASE "?limit=1&limit=1", "");
	ck_assert(routes_bad_member(routes_find(r, allow), r, &member));
	r = ask("POST " BASE "?a=1", "");
	ck_assert(routes_bad_member(routes_find(r, allow), r, &member));
}
END_TEST

START_TEST(a_code_that_nobody_knows_is_500)
{
	ck_assert_uint_eq(status_of(slice_of("not_found")), 404);
	ck_assert_uint_eq(status_of(slice_of("not_foun")), 500);
	ck_assert_uint_eq(status_of(slice_of("")), 500);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("gateway fields");
	TCase *t = tcase_create("fields");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, a_proof_is_a_token_or_a_certificate, 0, (int)countof(proofs));
	tcase_add_loop_test(t, an_origin_is_ours_whole_or_not, 0, (int)countof(origins));
	tcase_add_loop_test(
	    t, a_host_is_localhost_or_an_address_or_nobodys, 0, (int)countof(hosts));
	tcase_add_loop_test(t, a_trace_has_the_form_of_the_w3c, 0, (int)countof(traces));
	tcase_add_test(t, what_stands_twice_is_refused);
	tcase_add_loop_test(t, a_number_is_digits_within_its_bound, 0, (int)countof(numbers));
	tcase_add_loop_test(t, a_range_is_a_single_one_of_bytes, 0, (int)countof(ranges));
	tcase_add_loop_test(t, a_path_has_its_methods, 0, (int)countof(lines));
	tcase_add_test(t, a_query_has_the_members_of_its_route_once);
	tcase_add_test(t, a_code_that_nobody_knows_is_500);
	suite_add_tcase(s, t);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
