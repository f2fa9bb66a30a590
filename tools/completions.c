/*
 * completions: writes what completes `caisson` and `caissond` on the command line of a shell,
 * from the tables of options.def, to standard output: completions bash|zsh.
 */
#include <stdio.h>
#include <string.h>

#include "common/options.h"
#include "common/util.h"

static const struct {
	const char *name, *doc;
	unsigned mask;
} commands[] = {
#define COMMAND(id, name, synopsis, doc) { name, doc, COMMAND_##id },
#define FLAG(field, name, letter, commands, doc)
#define STRING(field, name, letter, commands, metavar, doc)
#define CHOICE(field, name, letter, commands, words, doc)
#define UINT(field, name, letter, commands, max, metavar, doc)
#define DURATION(field, name, letter, commands, doc)
#define SIZE(field, name, letter, commands, doc)
#define TIME(field, name, letter, commands, doc)
#define TEXTS(field, name, letter, commands, metavar, doc)
#define ALLOW(field, name, letter, commands, doc)
#define MOUNT(field, name, letter, commands, doc)
#define ENV(field, name, letter, commands, doc)
#include "common/options.def"
};

/* May its value be a file or directory of the machine? */
static bool
is_path(const struct option_desc *d)
{
	static const char *const names[] = { "FILE", "DIR", "PATH" };

	for (size_t i = 0; i < countof(names); i++)
		if (!strcmp(d->metavar, names[i]))
			return true;
	return d->kind == OPTION_MOUNT;
}

/* ---- bash -------------------------------------------------------------------------- */

/* The pattern of the option behind a command, as the word before the cursor. */
static void
put_bash_value(const char *command, const struct option_desc *d)
{
	printf("\t%s:--%s", command, d->name);
	if (d->letter)
		printf(" | %s:-%c", command, d->letter);
	fputs(")\n\t\t", stdout);
	if (d->kind == OPTION_CHOICE) {
		fputs("COMPREPLY=($(compgen -W '", stdout);
		for (const char *s = d->metavar; *s != '\0'; s++)
			putchar(*s == '|' ? ' ' : *s);
		fputs("' -- \"$cur\"))", stdout);
	} else if (is_path(d)) {
		fputs("_caisson_files", stdout);
	} else {
		putchar(':');
	}
	fputs("; return ;;\n", stdout);
}

static void
put_bash(void)
{
	fputs("# bash completion of caisson and caissond; made from the table of their options\n"
	      "_caisson_files() { compopt -o filenames 2>/dev/null; "
	      "COMPREPLY=($(compgen -f -- \"$cur\")); }\n"
	      "_caisson() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${1##*/}\n"
	      "\tlocal i names=\n\tCOMPREPLY=()\n"
	      "\tif [[ $command != caissond ]]; then\n\t\tcommand=${COMP_WORDS[1]}\n"
	      "\t\tif ((COMP_CWORD == 1)); then\n\t\t\tCOMPREPLY=($(compgen -W '",
	    stdout);
	for (size_t i = 0; i < countof(commands); i++)
		if (commands[i].mask != COMMAND_daemon)
			printf("%s ", commands[i].name);
	fputs("--help --version' -- \"$cur\")); return\n\t\tfi\n\tfi\n"
	      "\t# what stands behind -- is a command line of its own\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\t[[ ${COMP_WORDS[i]} == -- ]] && { _caisson_files; return; }\n\tdone\n"
	      "\tcase $command:$prev in\n",
	    stdout);
	for (size_t i = 0; i < countof(commands); i++)
		for (const struct option_desc *d = option_descs; d->name != NULL; d++)
			if ((d->commands & commands[i].mask) && d->kind != OPTION_FLAG)
				put_bash_value(commands[i].name, d);
	fputs("\tesac\n\tcase $command in\n", stdout);
	for (size_t i = 0; i < countof(commands); i++) {
		printf("\t%s) names='", commands[i].name);
		for (const struct option_desc *d = option_descs; d->name != NULL; d++)
			if (d->commands & commands[i].mask)
				printf("--%s ", d->name);
		fputs("' ;;\n", stdout);
	}
	fputs("\tesac\n\tif [[ $cur == -* ]]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$names\" -- \"$cur\"))\n"
	      "\telse\n\t\t_caisson_files\n\tfi\n}\n"
	      "complete -F _caisson caisson caissond\n",
	    stdout);
}

/* ---- zsh --------------------------------------------------------------------------- */

/* Within single quotes, and within the brackets of _arguments. */
static void
put_zsh_text(const char *s)
{
	for (; *s != '\0'; s++) {
		if (*s == '\'') {
			fputs("'\\''", stdout);
			continue;
		}
		if (strchr("[]:\\", *s))
			putchar('\\');
		putchar(*s);
	}
}

static void
put_zsh_option(const struct option_desc *d, const char *dashes, const char *name)
{
	printf("\t\t'%s%s%s[", d->kind >= OPTION_TEXTS ? "*" : "", dashes, name);
	put_zsh_text(d->doc);
	putchar(']');
	if (d->kind == OPTION_CHOICE) {
		fputs(":word:(", stdout);
		for (const char *s = d->metavar; *s != '\0'; s++)
			putchar(*s == '|' ? ' ' : *s);
		putchar(')');
	} else if (d->kind != OPTION_FLAG) {
		putchar(':');
		put_zsh_text(d->metavar);
		fputs(is_path(d) ? ":_files" : ": ", stdout);
	}
	fputs("'\n", stdout);
}

static void
put_zsh(void)
{
	fputs("#compdef caisson caissond\n"
	      "# zsh completion of caisson and caissond; made from the table of their options\n"
	      "_caisson() {\n\tlocal -a commands options\n\tlocal command=$service\n\tcommands=(\n",
	    stdout);
	for (size_t i = 0; i < countof(commands); i++) {
		if (commands[i].mask == COMMAND_daemon)
			continue;
		printf("\t\t'%s:", commands[i].name);
		put_zsh_text(commands[i].doc);
		fputs("'\n", stdout);
	}
	fputs("\t)\n\tif [[ $command == caisson ]]; then\n"
	      "\t\tif ((CURRENT == 2)); then _describe command commands; return; fi\n"
	      "\t\tcommand=$words[2]\n\t\tshift words; ((CURRENT--))\n\tfi\n"
	      "\tcase $command in\n",
	    stdout);
	for (size_t i = 0; i < countof(commands); i++) {
		printf("\t%s) options=(\n", commands[i].name);
		for (const struct option_desc *d = option_descs; d->name != NULL; d++) {
			const char letter[] = { d->letter, '\0' };

			if (!(d->commands & commands[i].mask))
				continue;
			put_zsh_option(d, "--", d->name);
			if (d->letter)
				put_zsh_option(d, "-", letter);
		}
		fputs("\t\t) ;;\n", stdout);
	}
	fputs("\tesac\n\t_arguments -s $options '*:file:_files'\n}\n_caisson \"$@\"\n", stdout);
}

int
main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "bash"))
		put_bash();
	else if (argc == 2 && !strcmp(argv[1], "zsh"))
		put_zsh();
	else
		return 2;
	return 0;
}
