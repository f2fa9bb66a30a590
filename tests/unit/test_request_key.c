#include <check.h>

#include "common/request_key.h"
#include "common/util.h"

START_TEST(the_form_of_a_key)
{
	static const struct {
		const char *key;
		bool valid;
	} table[] = {
		{ "a", true },
		{ "0-Z_.", true },
		{ "", false },
		{ "a b", false },
		{ "a/b", false },
		{ "a\n", false },
		{ "\xc3\xa4", false },
	};
	char longest[130];

	for (size_t i = 0; i < countof(table); i++)
		ck_assert_int_eq(
		    request_key_is_valid(slice_of(table[i].key)), table[i].valid);
	memset(longest, 'k', sizeof longest);
	ck_assert(request_key_is_valid((struct slice){ (uint8_t *)longest, 128 }));
	ck_assert(!request_key_is_valid((struct slice){ (uint8_t *)longest, 129 }));
	ck_assert(!request_key_is_valid((struct slice){ (const uint8_t *)"a\0b", 3 }));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("request_key");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_test(t, the_form_of_a_key);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
