#include <ctype.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <signal.h>
#include <string.h>

#include "common/control.h"
#include "common/util.h"
#include "supervisor/config.h"
#include "supervisor/learn.h"
#include "supervisor/profiles.h"
#include "supervisor/profiles_rules.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define COMMAND_MAX 200 /* bytes of it in the comment */
#define MIB	    (1ull << 20)

/* Does a call belong into a list? */
typedef bool pick_fn(const struct learn *l, uint32_t nr, const struct conf_profile *onto);

static const char *
name_of(uint32_t nr)
{
	return profile_syscall_name(ARCH, nr);
}

/* Whoever reads the file shall see what stands there. */
static void
print_command(FILE *f, char *const *command)
{
	size_t n = 0;

	fputs("# Of: ", f);
	for (; *command != NULL && n < COMMAND_MAX; command++, n++) {
		for (const char *s = *command; *s != '\0' && n < COMMAND_MAX; s++, n++)
			putc(isprint((unsigned char)*s) ? *s : '?', f);
		putc(' ', f);
	}
	fputs(*command != NULL || n >= COMMAND_MAX ? "...\n" : "\n", f);
}

/* ---- the rows ---- */

static bool
is_added(const struct learn *l, uint32_t nr, const struct conf_profile *onto)
{
	const struct learn_call *c = learn_call(l, nr);

	(void)onto;
	return c->class == LEARN_NEW && c->used && !c->never;
}

/* What is in the profile before was used then, whatever this run did. */
static bool
is_unused(const struct learn *l, uint32_t nr, const struct conf_profile *onto)
{
	const struct learn_call *c = learn_call(l, nr);

	return onto == NULL && (c->class == LEARN_PLAIN || c->class == LEARN_PARTLY) && !c->used;
}

static bool
is_error(const struct learn *l, uint32_t nr, const struct conf_profile *onto)
{
	const struct learn_call *c = learn_call(l, nr);

	(void)onto;
	return c->class == LEARN_ERROR && c->used;
}

static bool
is_beyond(const struct learn *l, uint32_t nr, const struct conf_profile *onto)
{
	const struct learn_call *c = learn_call(l, nr);

	(void)onto;
	return (c->class == LEARN_BEYOND || c->class == LEARN_CORE) && c->used;
}

static size_t
count(const struct learn *l, const struct conf_profile *onto, pick_fn *pick)
{
	size_t n = 0;

	for (uint32_t nr = 0; nr < LEARN_CALLS; nr++)
		n += pick(l, nr, onto);
	return n;
}

static void
print_rows(FILE *f, const struct learn *l, const struct conf_profile *onto, pick_fn *pick,
    const char *action, const char *title)
{
	if (count(l, onto, pick) == 0)
		return;
	fprintf(f, "      # %s\n", title);
	for (uint32_t nr = 0; nr < LEARN_CALLS; nr++)
		if (pick(l, nr, onto))
			fprintf(f, "      - { name: %s, action: %s }\n", name_of(nr), action);
}

static void
print_condition(FILE *f, const struct conf_condition *c)
{
	fprintf(f, "{ argument: %" PRIu64 ", ", c->argument);
	if (c->has_masked)
		fprintf(f, "masked: 0x%" PRIx64 ", ", c->masked);
	fprintf(f, "equals: 0x%" PRIx64 " }", c->equals);
}

static bool
is_carried(const struct learn *l, const struct conf_syscall *s)
{
	int nr = profile_syscall_number(s->name);

	return strcmp(s->action, "end") != 0 || nr < 0 || nr >= LEARN_CALLS ||
	    !learn_call(l, (uint32_t)nr)->used ||
	    (learn_call(l, (uint32_t)nr)->class != LEARN_PLAIN &&
		learn_call(l, (uint32_t)nr)->class != LEARN_PARTLY);
}

static void
print_carried(FILE *f, const struct learn *l, const struct conf_profile *onto)
{
	size_t n = 0;

	for (size_t i = 0; onto != NULL && i < onto->syscalls.n; i++) {
		const struct conf_syscall *s = &onto->syscalls.v[i];

		if (!is_carried(l, s))
			continue;
		if (n++ == 0)
			fputs("      # As it was before.\n", f);
		fprintf(f, "      - { name: %s, action: %s", s->name, s->action);
		for (size_t k = 0; k < s->when.n; k++) {
			fputs(k == 0 ? ", when: [" : ", ", f);
			print_condition(f, &s->when.v[k]);
		}
		fputs(s->when.n > 0 ? "] }\n" : " }\n", f);
	}
}

/* ---- what a person has to decide ---- */

static void
print_beyond(FILE *f, const struct learn *l)
{
	if (count(l, NULL, is_beyond) == 0)
		return;
	fputs("#\n# DECIDE: these were called with arguments that the base does not allow.  Nobody "
	      "looked at\n# which: find out (strace), and add a row with action: base and one "
	      "with that condition.\n", f);
	for (uint32_t nr = 0; nr < LEARN_CALLS; nr++)
		if (is_beyond(l, nr, NULL))
			fprintf(f, "#   %s%s\n", name_of(nr),
			    learn_call(l, nr)->never ? ": some no profile may allow, so it was the end" :
						       "");
}

static void
print_errors(FILE *f, const struct learn *l)
{
	if (count(l, NULL, is_error) == 0)
		return;
	fputs("#\n# These got an errno of the base's, as they will.  Where the program cannot do "
	      "without,\n# decide on a row for it.\n", f);
	for (uint32_t nr = 0; nr < LEARN_CALLS; nr++)
		if (is_error(l, nr, NULL))
			fprintf(f, "#   { name: %s, action: allow }    # got %s\n", name_of(nr),
			    strerrorname_np(learn_call(l, nr)->error));
}

/* Why it could not go on. */
static void
print_never(FILE *f, const struct exit_facts *x)
{
	static const struct profile_rule any = { .n = 0 };
	const char *name = profile_syscall_name(x->arch, x->syscall), *why;

	fputs("#\n# CUT SHORT: it called ", f);
	if (strcmp(name, "?") == 0)
		fprintf(f, "number %u, of which nothing is known here.\n", x->syscall);
	else if (x->arch != ARCH || x->syscall >= LEARN_CALLS)
		fprintf(f, "%s of another architecture.\n", name);
	else if ((why = profile_never(name, &any)) != NULL)
		fprintf(f, "%s, which no profile allows, or not with all arguments: %s.\n", name, why);
}

/* As of a program that was refused what it takes for certain. */
static bool
is_crash(const struct exit_facts *x)
{
	static const int signals[] = { SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGSEGV };

	for (size_t i = 0; i < countof(signals) && x->kind == EXIT_SIGNALED; i++)
		if (x->status == signals[i])
			return true;
	return x->kind == EXIT_EXITED;
}

static void
print_end(FILE *f, const struct learn *l)
{
	const struct exit_facts *x = learn_exit(l);
	const struct ending_desc *d = ending_desc(x->cause);

	if (x->cause == ENDING_seccomp) {
		print_never(f, x);
		return;
	}
	if (d != NULL)
		fprintf(f, "#\n# CUT SHORT: %s.\n", d->cause);
	else if (x->kind == EXIT_SIGNALED)
		fprintf(f, "#\n# It died of signal %d: what it would have done next is missing.\n",
		    x->status);
	else if (x->status != 0)
		fprintf(f, "#\n# It exited with status %d: perhaps it did not do all its work.\n",
		    x->status);
	else
		return;
	if (learn_profile(l)->mdwe && is_crash(x))
		fputs("# If it makes code while it runs (JIT, ctypes callbacks), that was refused: "
		      "try --profile jit.\n", f);
}

/* A quarter more than was seen, in whole MiB. */
static void
print_usage(FILE *f, const struct exit_facts *x)
{
	uint64_t peak = (x->peak_bytes + x->peak_bytes / 4) / MIB + 1;

	fputs("    # Seen, with some room; decide whether it shall be a limit (memory bounds the "
	      "address space,\n    # which is more, where there is no control group):\n", f);
	fprintf(f, "    # memory: %" PRIu64 "MiB\n", peak);
	if (x->processes > 0)
		fprintf(f, "    # pids: %" PRIu64 "\n", x->processes + x->processes / 4 + 1);
	fprintf(f, "    # cpu_time: %" PRIu64 "s\n", x->cpu_us * 2 / 1000000 + 1);
}

static void
print_head(FILE *f, const struct learn *l, char *const *command)
{
	fputs("# Proposed by `caisson learn`, where calls went on that a chamber refuses.\n", f);
	print_command(f, command);
	fputs("# One run sees one path: what this one did not do is not here, and what it did need "
	      "not be\n# harmless.  Read every row.  Add other runs with --onto this file.  Then:\n"
	      "#     caisson exec -c THIS-FILE --profile " LEARN_PROFILE " -- COMMAND...\n", f);
	print_end(f, l);
	print_beyond(f, l);
	print_errors(f, l);
}

void
learn_propose(FILE *f, const struct learn *l, const struct conf_profile *onto,
    char *const *command)
{
	size_t rows;

	print_head(f, l, command);
	fputs("version: 1\n\nprofiles:\n", f);
	if (onto != NULL)
		conf_show_profile(f, onto);
	else
		fprintf(f, "  - id: " LEARN_PROFILE "\n    base: %s\n", learn_root(l)->name);
	print_usage(f, learn_exit(l));
	rows = count(l, onto, is_added) + count(l, onto, is_unused);
	for (size_t i = 0; onto != NULL && i < onto->syscalls.n; i++)
		rows += is_carried(l, &onto->syscalls.v[i]);
	if (rows == 0)
		return;
	fputs("    syscalls:\n", f);
	print_rows(f, l, onto, is_added, "allow", "+ Used, and not in the base.");
	print_carried(f, l, onto);
	print_rows(f, l, onto, is_unused, "end", "- In the base, and not used.");
}
