/*
 * log: lines on standard error, "caisson-broker: warning: text", or JSON objects.
 *
 * Control characters and invalid UTF-8 in the text are escaped, so that nothing a peer
 * wrote can reach a terminal.  A line is one write(2) of at most PIPE_BUF bytes: lines of
 * several processes do not mix.  Of one call site LOG_BURST lines come at once, and one more
 * each LOG_REFILL_MS; what a peer makes it say beyond that is counted, and the number said with
 * the next line that may come.  The function that stops an error logs it, once; common/ never
 * logs.  For one thread.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#define LOG_ENV	      "CAISSON_LOG" /* "text" or "json": of children, who have no option */
#define LOG_BURST     50
#define LOG_REFILL_MS 200

enum log_level { LOG_ERROR_, LOG_WARN_, LOG_INFO_, LOG_DEBUG_ };
enum log_format { LOG_TEXT, LOG_JSON };

/*
 * `name` stands before every line and must live on.  `level`: what is printed at most.  The
 * format is that of the environment's LOG_ENV, text without it.  What was said is forgotten.
 */
void log_init(const char *name, enum log_level level);
/*
 * LOG_JSON: one object a line: "ts" (RFC 3339, UTC, ms), "level", "msg", "process", "pid", and
 * "ids", an object of what log_id() said, if it did.
 */
void log_set_format(enum log_format format);
enum log_format log_get_format(void);
/*
 * What the next line is about, for programs that read it: "provider", its id.  Both must live
 * until then; the text says it anyway.  Four at most; beyond that they are left out.
 */
void log_id(const char *kind, const char *id);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Logs as an error and exits with 125.  Only in main.c files, during start-up. */
_Noreturn void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* COMMON_LOG_H */
