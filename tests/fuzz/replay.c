/*
 * replay: feeds every file of the folders it is given to a fuzz target, so that what a
 * fuzzer once found is an ordinary test.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* Of exact size, so that a sanitizer sees a byte too many. */
static int
replay_file(const char *path)
{
	FILE *f = fopen(path, "rbe");
	struct stat st;
	uint8_t *p;
	size_t n;

	if (f == NULL || fstat(fileno(f), &st) < 0) {
		fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
		if (f != NULL)
			fclose(f);
		return -EIO;
	}
	if (!S_ISREG(st.st_mode)) {
		fclose(f);
		return 0;
	}
	n = (size_t)st.st_size;
	p = malloc(n > 0 ? n : 1);
	if (p == NULL || fread(p, 1, n, f) != n) {
		fprintf(stderr, "cannot read %s\n", path);
		free(p);
		fclose(f);
		return -EIO;
	}
	fclose(f);
	LLVMFuzzerTestOneInput(p, n);
	free(p);
	return 1;
}

static void
replay_folder(const char *folder, unsigned *passed, unsigned *failed)
{
	DIR *d = opendir(folder);
	struct dirent *e;
	char path[4096];
	int r;

	if (d == NULL) {
		fprintf(stderr, "cannot open %s: %s\n", folder, strerror(errno));
		++*failed;
		return;
	}
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		r = replay_file(path);
		*passed += r > 0;
		*failed += r < 0;
	}
	closedir(d);
}

int
main(int argc, char **argv)
{
	unsigned passed = 0, failed = 0;
	int i;

	for (i = 1; i < argc; i++)
		replay_folder(argv[i], &passed, &failed);
	printf("%u passed, %u failed\n", passed, failed);
	/* An empty corpus tests nothing. */
	return failed == 0 && passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
