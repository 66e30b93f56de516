// SPDX-License-Identifier: Apache-2.0
/* The same, while the processors are busy. */
#define PROCESSORS "cpu %d 0 0 0"
#include "slowmq.c"
