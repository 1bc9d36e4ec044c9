/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of drivers, which are not trusted: they end within their room and hold printable ASCII only. */
#ifndef PLATFORM_DRIVER_TEXT_H
#define PLATFORM_DRIVER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Copies at most room - 1 characters (room >= 1) of a text that ends after n bytes or at a NUL: runs of
 * control characters and spaces become one space, other bytes than printable ASCII '?'. */
void driver_text_copy(char *out, size_t room, const char *text, size_t n);
/* The same in place, for a text of a driver or of another process. */
void driver_text_clean(char *text, size_t room);
/* A word of a target's text: what is no letter or digit there becomes '_'. */
void driver_text_word(char *out, size_t room, const char *text);
/* Names the n devices of a kind, for errors: "they are opencl:0 to opencl:2". Returns out. */
const char *driver_devices(const char *kind, int n, char out[64]);
/* A byte that is neither 0 nor 1 must not be read as a bool. */
void driver_flag_clean(bool *flag);

#endif
