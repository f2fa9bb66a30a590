/*
 * doctor: what this machine gives a chamber, layer by layer, and what to do about the rest.
 *
 * Every row of doctor.def is a probe that is made, in a child of its own with an end in
 * time, never a version that is compared.  Then a chamber of each built-in profile is
 * launched by the machinery that launches all of them: that is the answer, and the rows
 * say why.  Nothing is changed on the machine, and nothing is left running.
 */
#ifndef SUPERVISOR_DOCTOR_H
#define SUPERVISOR_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/control.h"

enum doctor_need { DOCTOR_NEEDED, DOCTOR_WANTED, DOCTOR_INFORMATION };

enum doctor_state {
	DOCTOR_UNTRIED, /* what it needs is not there */
	DOCTOR_YES,
	DOCTOR_NO,
	DOCTOR_UNASKED, /* does not concern this user */
	DOCTOR_UNKNOWN, /* the probe died or did not come back */
	DOCTOR_STATES
};

/* What a probe found.  Written by its child, in shared memory, so of fixed size. */
struct doctor_finding {
	enum doctor_state state;
	int error;	  /* errno; 0: none */
	char detail[192]; /* evidence */
	char remedy[192]; /* "": that of the table */
};

struct doctor_row {
	const char *id, *title;
	enum doctor_need need;
	int after; /* a row, or -1 */
	const char *purpose, *remedy;
	void (*probe)(struct doctor_finding *f);
};

/* A group's number is that of its first row. */
#define GROUP(name) DOCTOR_GROUP_##name, DOCTOR_BEFORE_##name = DOCTOR_GROUP_##name - 1,
#define PROBE(id, need, after, title, purpose, remedy) DOCTOR_ROW_##id,
#define REMEDY(id, error, remedy)
enum {
#include "supervisor/doctor/doctor.def"
	DOCTOR_ROWS
};
#define DOCTOR_ROW_none (-1)

extern const struct doctor_row doctor_rows[DOCTOR_ROWS];

#define DOCTOR_PROFILES_MAX 16

/* What became of a chamber of one profile. */
struct doctor_launch {
	const char *profile;
	bool launched;	   /* a program ran in it, and its chamber is gone */
	enum layer layer;  /* that refused */
	uint32_t absent;   /* 1 << enum layer: optional, and not there, as the launch says */
	char message[512]; /* why it did not; "" if it did */
};

struct doctor_report {
	bool is_root;
	struct doctor_finding findings[DOCTOR_ROWS];
	struct doctor_launch launches[DOCTOR_PROFILES_MAX];
	size_t nlaunches;
};

/* The heading under which a row stands. */
const char *doctor_group(int row);
/* What to do about a row that is not there; "" if there is nothing. */
const char *doctor_remedy(const struct doctor_report *r, int row);

/* Can this chamber be enforced: it was launched, and nothing that is needed is missing? */
bool doctor_is_enforced(const struct doctor_report *r, const struct doctor_launch *l);
/* The default profile's chamber; NULL if it was not tried. */
const struct doctor_launch *doctor_default(const struct doctor_report *r);
/* Does the row stand in the way of this profile (needed), or is it a layer less (wanted)? */
bool doctor_is_gap(const struct doctor_report *r, int row, const char *profile);

/* The report for people, in colour if `colour`, all purposes if `verbose`; and as one JSON
 * object, whose form is documented in caisson(1). */
void doctor_print_text(FILE *f, const struct doctor_report *r, bool colour, bool verbose);
void doctor_print_json(FILE *f, const struct doctor_report *r);

/* `caissond --doctor`: makes every probe, launches the chambers, prints, and returns the exit
 * status: 0 if the default profile can be enforced, 1 if not, 125 if that could not be found
 * out.  `state_dir`: NULL for the default. */
int doctor_main(const char *state_dir, bool json, bool verbose);

#endif /* SUPERVISOR_DOCTOR_H */
