/* SPDX-License-Identifier: MIT */
/*
 * Goal: a program that is compiled with -D_FORTIFY_SOURCE=3 is virtual in a run like any other.
 * Method: fortify.h; CMakeLists.txt compiles this file with optimization, which the checks need.
 */
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 3
#include "lab/fortify.h"
