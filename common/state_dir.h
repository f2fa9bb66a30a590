/*
 * state_dir: where records lie if nobody names another place.
 */
#ifndef COMMON_STATE_DIR_H
#define COMMON_STATE_DIR_H

/*
 * /var/lib/caisson as root, else $XDG_STATE_HOME/caisson, else ~/.local/state/caisson; a
 * variable that is no absolute path is none.  The caller frees it.  NULL if nothing says
 * where it is, or memory is out.
 */
char *state_dir_default(void);

#endif /* COMMON_STATE_DIR_H */
