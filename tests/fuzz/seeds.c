/*
 * One seed of the protocol target for each row of protocol.def, with every field there is.  A
 * seed begins with the number of its row, so they are made again when rows have moved:
 * `make seeds`.
 */
#include <stdio.h>

#include "tests/unit/sample.h"

static int
seed_write(const char *dir, const struct msg_desc *desc)
{
	struct buf frame = { 0 };
	uint8_t head[2] = { (uint8_t)desc->type, 0 };
	char path[1024];
	bool whole;
	FILE *f;

	while (1u << head[1] != sample_state(desc))
		head[1]++;
	sample_frame(&frame, desc, SAMPLE_ALL, NULL);
	snprintf(path, sizeof path, "%s/%s", dir, desc->id);
	f = fopen(path, "w");
	if (f == NULL) {
		perror(path);
		return 1;
	}
	whole = fwrite(head, 1, sizeof head, f) == sizeof head &&
	    fwrite(frame.p, 1, frame.n, f) == frame.n;
	buf_finish(&frame);
	return fclose(f) == 0 && whole ? 0 : 1;
}

int
main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: seeds DIRECTORY\n");
		return 2;
	}
	for (int type = 0; type < MSG_TYPE_MAX; type++)
		if (seed_write(argv[1], protocol_desc((enum msg_type)type)) != 0)
			return 1;
	return 0;
}
