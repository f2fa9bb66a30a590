/*
 * sanitizer: what a program says to the sanitizers of a MODE=asan build.
 *
 * The leak checker attaches to its own process when it ends, which a chamber forbids.
 * Every program says so in its main.c; ASAN_OPTIONS=detect_leaks=1 turns it on again
 * where a test runs one outside a chamber.
 */
#ifndef COMMON_SANITIZER_H
#define COMMON_SANITIZER_H

#ifdef CAISSON_ASAN
#define SANITIZER_DEFAULTS                                                                     \
	const char *__asan_default_options(void);                                              \
	const char *__asan_default_options(void)                                               \
	{                                                                                      \
		return "detect_leaks=0";                                                       \
	}
#else
#define SANITIZER_DEFAULTS
#endif

#endif /* COMMON_SANITIZER_H */
