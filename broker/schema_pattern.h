/*
 * schema_pattern: regular expressions of JSON Schema: the part of ECMA-262 (with the flag
 * `u`) that is regular, matched by an automaton.  The cost of a match is at most the length
 * of the text times that of the program, whatever the pattern: there is no backtracking.
 *
 *   offered   literals, ., [classes], \d \w \s and their opposites, | ( ) (?: ) (?<name> ),
 *             * + ? {n} {n,} {n,m} and their lazy forms, ^ $ \b \B, \t \n \v \f \r \0 \cX
 *             \xHH \uHHHH \u{H}, and \ before what is neither letter nor digit
 *   refused   back references, lookahead, lookbehind, \p, any other escape of a letter
 *
 * As in ECMA-262 \d and \w are ASCII, \s is not, . is no line terminator, $ is the end of
 * the text and nothing before it.  Characters are code points.  Outside of a class { } ] that
 * begin nothing stand for themselves, and so does - beside \w and the like in one.
 */
#ifndef BROKER_SCHEMA_PATTERN_H
#define BROKER_SCHEMA_PATTERN_H

#include "broker/zone.h"
#include "common/protocol.h"

#define PATTERN_BYTES_MAX   4096
#define PATTERN_PROGRAM_MAX 16384 /* instructions, counted repetitions written out */

struct pattern;

/*
 * Compiles `text`, which is UTF-8, into `z`; nothing of it is kept.  Returns 0; -EINVAL with
 * what is wrong in `ret_why` (static text); -ENOMEM.
 */
int pattern_compile(
    struct slice text, struct zone *z, const struct pattern **ret, const char **ret_why);

/* How many instructions its program has. */
size_t pattern_size(const struct pattern *p);
/* How many words of scratch memory a match of a program of `size` instructions needs. */
size_t pattern_scratch(size_t size);

/*
 * Does it match anywhere in `text`, which is UTF-8?  Takes the steps that it makes from
 * `left`.  Returns 1 or 0; -E2BIG once `left` is below zero.
 */
int pattern_match(const struct pattern *p, struct slice text, uint32_t *scratch, int64_t *left);

#endif /* BROKER_SCHEMA_PATTERN_H */
