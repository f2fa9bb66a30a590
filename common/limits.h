/*
 * limits: every bound that two processes share, with its unit and its reason.
 * A bound that only one module knows stands in that module.
 */
#ifndef COMMON_LIMITS_H
#define COMMON_LIMITS_H

/* bytes after the length word; one 1 MiB result with its envelope does not fit, on purpose:
 * RESULT_MAX is less */
#define FRAME_MAX	 (1u << 20)
#define ARGUMENTS_MAX	 (256u << 10) /* bytes of packed arguments, message, context */
/* bytes of a packed result; leaves room for the rest of its frame */
#define RESULT_MAX	 (768u << 10)
#define CATALOGUE_MAX	 (512u << 10) /* bytes of the packed catalogue of a turn */
#define STATE_PAGE_MAX	 (512u << 10) /* bytes of one page of a broker's state */
#define ESCALATION_REASON_MAX 4096 /* bytes of what a runtime says when it asks a person */
#define ESCALATIONS_MAX	 1024 /* of a namespace, pending or resolved; then the oldest goes */
#define METADATA_MAX	 (16u << 10) /* bytes: metadata, annotations, small lists */
#define CAPABILITIES_MAX (256u << 10) /* bytes of the packed capabilities of a grant */
#define PURPOSES_MAX	 (40u << 10) /* bytes of its packed purposes: 64 of 512 (TU-38) */
#define SCHEMA_MAX	 (64u << 10) /* bytes of a packed JSON Schema */
#define EVENT_MAX	 (64u << 10) /* bytes of one event's data (OP-15) */
#define OUTPUT_CHUNK_MAX (64u << 10) /* bytes of one output or input chunk */
#define PATH_MAX_BYTES	 (32u << 10) /* bytes of a packed segment list */
#define INPUT_WINDOW	 (1u << 20) /* bytes of input a client may send ahead */

/*
 * What a value may be that a program hands to the broker, which passes it on wrapped: a
 * terminal event holds an output five levels down, beside metadata and annotations, and
 * must not break the bounds of a frame below.
 */
#define PAYLOAD_DEPTH_MAX 24
#define PAYLOAD_NODES_MAX (1u << 15)
#define DETAILS_MAX	 (64u << 10) /* bytes of the packed details of an error */

#define VALUE_DEPTH_MAX	 32 /* nesting of a frame's values, the frame itself included */
#define VALUE_NODES_MAX	 (1u << 16) /* values in one frame: bounds what a walk can cost */

#define TOOL_NAMESPACES_MAX 256 /* enabled ones */
#define PATH_SEGMENTS_MAX 64 /* TU-35 */
#define PATH_SEGMENT_MAX  256 /* bytes, TU-35 */
#define ERROR_MESSAGE_MAX 4096 /* bytes */

/* of a runtime's processes, or a shared provider's, at their start, in START_WINDOW_MS; after
 * one more it is not started for as long */
#define START_DEATHS_MAX 5
#define START_WINDOW_MS	 10000

#define LINK_READ_MAX	 (256u << 10) /* bytes read per link and loop turn */
/* bytes queued for a peer that does not read, then it is cut off */
#define LINK_QUEUE_MAX	 (8u << 20)

#endif /* COMMON_LIMITS_H */
