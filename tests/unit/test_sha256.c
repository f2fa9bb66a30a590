/* SHA-256 against the examples of FIPS 180-4 and RFC 4231. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/hex.h"
#include "common/sha256.h"
#include "common/util.h"

static void
ck_hash(const uint8_t hash[SHA256_BYTES], const char *want)
{
	char text[2 * SHA256_BYTES + 1];

	hex_encode(hash, SHA256_BYTES, text);
	ck_assert_str_eq(text, want);
}

static const struct {
	const char *text, *hash;
} plain[] = {
	{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};

START_TEST(two_pieces_are_hashed_as_one)
{
	struct slice s = slice_of(plain[_i].text);
	uint8_t hash[SHA256_BYTES];

	for (size_t cut = 0; cut <= s.n; cut++) {
		sha256((struct slice){ s.p, cut }, (struct slice){ s.p + cut, s.n - cut },
		    hash);
		ck_hash(hash, plain[_i].hash);
	}
}
END_TEST

static const struct {
	uint8_t key[64];
	size_t key_n;
	const char *text, *hash;
} keyed[] = {
	{ { 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11 }, 20,
	    "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
	{ "Jefe", 4, "what do ya want for nothing?",
	    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
};

START_TEST(a_keyed_hash_is_that_of_the_standard)
{
	struct sha256_key k;
	uint8_t hash[SHA256_BYTES];

	sha256_key_init(&k, keyed[_i].key, keyed[_i].key_n);
	/* Twice: a use leaves the key as it was. */
	for (int use = 0; use < 2; use++) {
		sha256_keyed(&k, slice_of(keyed[_i].text), hash);
		ck_hash(hash, keyed[_i].hash);
	}
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("sha256");
	TCase *tc = tcase_create("sha256");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, two_pieces_are_hashed_as_one, 0, countof(plain));
	tcase_add_loop_test(tc, a_keyed_hash_is_that_of_the_standard, 0, countof(keyed));
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
