/* SPDX-License-Identifier: MIT */
/*
 * Random numbers: unpredictable bytes, for those who may have them.
 *
 * They come from the operating system and are fit for keys. In the lab they come from the seed of
 * the run, so that it can be repeated.
 */
#ifndef KIN_RANDOM_H
#define KIN_RANDOM_H

#include <kin/base.h>
#include <kin/status.h>

#include <stddef.h>

KIN_BEGIN_DECLS

/**
 * kin_random - fill memory with unpredictable bytes.
 * @buf:  receives them; none when the call fails.
 * @size: how many; 0 fills nothing.
 *
 * Example:
 *     #include <stdint.h>
 *     int roll(unsigned *dice)
 *     {
 *         uint64_t number;
 *         int rc = kin_random(&number, sizeof(number));
 *         if (rc == 0)
 *             *dice = (unsigned)(number % 6) + 1;
 *         return rc;
 *     }
 *
 * From:    anywhere; outside a task nothing is charged
 * Parks:   no, but others may run
 * Needs:   KIN_CAP_RANDOM
 * Budget:  1 op, 1 syscall
 * Returns: 0, -EINVAL for NULL with a size, KIN_NOCAP without KIN_CAP_RANDOM, KIN_BUDGET,
 *          KIN_CANCELLED when a turn ended here and the task has been cancelled, -errno where the
 *          system has none to give
 */
KIN_API KIN_MUST_USE int kin_random(void *buf, size_t size);

KIN_END_DECLS

#endif
