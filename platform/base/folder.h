/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that is to be made, and that must not stay if nothing could be written into it. */
#ifndef PLATFORM_FOLDER_H
#define PLATFORM_FOLDER_H

#include <limits.h>

/* Note it before it is made, and drop it if that was in vain. */
struct new_folder {
	char path[PATH_MAX];
	int missing; /* folders at the end of the path that did not exist */
};

/* dir NULL: none. A path that is too long counts as none. */
void new_folder_note(struct new_folder *f, const char *dir);
/* Removes those of the folders that did not exist and are empty. */
void new_folder_drop(struct new_folder *f);

#endif
