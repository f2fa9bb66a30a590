/*
 * log: lines on standard error, "caisson-broker: warning: text".
 *
 * Control characters and invalid UTF-8 in the text are escaped, so that nothing a peer
 * wrote can reach a terminal.  A line is one write(2) of at most 1 KiB.  The function
 * that stops an error logs it, once; common/ never logs.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

enum log_level { LOG_ERROR_, LOG_WARN_, LOG_INFO_, LOG_DEBUG_ };

/* `name` stands before every line and must live on.  `level`: what is printed at most. */
void log_init(const char *name, enum log_level level);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Logs as an error and exits with 125.  Only in main.c files, during start-up. */
_Noreturn void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* COMMON_LOG_H */
