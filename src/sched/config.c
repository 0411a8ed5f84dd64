/* SPDX-License-Identifier: MIT */
/*
 * What a runtime is told: checked, completed by defaults, and by the hard modes of debug builds.
 */
#include "sched/sched.h"

#include "sched/report.h"

#include <errno.h>
#include <string.h>

#define STACK_MAX_DEFAULT ((size_t)256 * 1024)
#define STALL_DEFAULT_NS INT64_C(10000000)

/* ---- hard modes ---- */

#ifdef KIN_DEBUG
static bool has_word(const char *words, const char *word)
{
    const char *at = words ? strstr(words, word) : NULL;
    size_t size = strlen(word);
    return at && (at == words || at[-1] == ',') && (at[size] == '\0' || at[size] == ',');
}

static void read_hard(struct kin__hard *hard)
{
    const char *words = kin__plat_env("KIN_HARD");
    hard->park = has_word(words, "park");
    hard->steal = has_word(words, "steal");
    hard->one = has_word(words, "one");
    hard->wrap = has_word(words, "wrap");
    hard->slow = has_word(words, "slow");
    hard->stack = has_word(words, "stack");
    const char *oom = words ? strstr(words, "oom=") : NULL;
    uint64_t n = 0;
    for (oom = oom ? oom + 4 : NULL; oom && *oom >= '0' && *oom <= '9' && n < 1000000000; oom++)
        n = n * 10 + (uint64_t)(*oom - '0');
    if (n)
        kin__plat_fail_after(n, false);
}
#else
static void read_hard(struct kin__hard *hard)
{
    (void)hard;
}
#endif

int kin__config_check(const struct kin_config *config)
{
    if (config->size != sizeof(*config) || config->workers > KIN_WORKERS_MAX ||
        config->workers_max > 2 * KIN_WORKERS_MAX ||
        (unsigned)config->profile > KIN_CORE || config->yield_interval > UINT16_MAX ||
        (unsigned)config->victim > KIN_VICTIM_LEAST_LOADED ||
        (unsigned)config->poller > KIN_POLLER_EPOLL ||
        (unsigned)config->on_overflow > KIN_STACK_ABORT || config->stall_threshold < 0)
        return -EINVAL;
    return kin__stack_class(config->stack_max_bytes) >= KIN__STACK_CLASSES ? -EINVAL : 0;
}

int kin__config_fill(struct kin__sched *sched, const struct kin_config *given)
{
    static const uint16_t intervals[] = {1024, 512, 1024}; /* by profile [SCHED:4.3.1] */
    struct kin_config *config = &sched->config;
    *config = (struct kin_config)KIN_CONFIG_INIT;
    if (given) {
        if (!KIN__SIZED(given, "kin_run", "CONFIG"))
            return -EINVAL;
        *config = *given;
    }
    int rc = kin__config_check(config);
    if (rc < 0 || config->profile == KIN_CORE)
        return rc < 0 ? rc : -EINVAL;
    read_hard(&sched->hard);
    if (config->workers == 0)
        config->workers = kin__cpu_count();
    if (sched->hard.one)
        config->workers = 1;
    if (config->workers_max == 0)
        config->workers_max = 2 * config->workers;
    if (config->workers_max < config->workers)
        return -EINVAL;
    if (config->stack_max_bytes == 0)
        config->stack_max_bytes = sched->hard.stack ? (size_t)64 * 1024 : STACK_MAX_DEFAULT;
    if (config->stall_threshold == 0)
        config->stall_threshold = STALL_DEFAULT_NS;
    if (config->yield_interval == 0)
        config->yield_interval = intervals[config->profile];
    sched->slice = (uint16_t)config->yield_interval;
    sched->stack_class = kin__stack_class(config->stack_max_bytes);
    return 0;
}
