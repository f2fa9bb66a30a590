/*
 * text: the few questions about strings that authority asks.  Pure.
 */
#ifndef BROKER_AUTHORITY_TEXT_H
#define BROKER_AUTHORITY_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * True for 1..`max` bytes of UTF-8 without control characters; false for NULL.  Looks at
 * no more than `max` + 1 bytes.
 */
bool text_is_plain(const char *text, size_t max);

#endif /* BROKER_AUTHORITY_TEXT_H */
