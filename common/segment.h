/*
 * segment: one segment of a resource's path (TU-35), for those who decide about paths and
 * for those who offer names.  Pure.
 */
#ifndef COMMON_SEGMENT_H
#define COMMON_SEGMENT_H

#include <stddef.h>

/*
 * Why `n` bytes are not a segment: "" for a good one, else static text: "a segment is
 * empty", "a segment is too long", "a segment is . or ..", "not UTF-8", "a segment holds a
 * separator or control character", "a segment begins (ends) with white space".  The bytes
 * may hold NULs.
 */
const char *segment_fault(const char *s, size_t n);

#endif /* COMMON_SEGMENT_H */
