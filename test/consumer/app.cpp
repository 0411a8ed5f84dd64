/* SPDX-License-Identifier: MIT */
/*
 * The program of app.c in C++17: the headers have C linkage and the nursery joins at the end of its
 * scope.
 */
#ifdef KIN_SINGLE_FILE
#include "kin.h"
#else
#include <kin/kin.h>
#endif

#include <array>
#include <cstdio>

namespace
{

struct work {
    int input = 0;
    int output = -1;
};

int square(void *arg)
{
    auto *item = static_cast<work *>(arg);

    kin_ignore(kin_yield());
    item->output = item->input * item->input;
    return 0;
}

int squares(void *arg)
{
    std::array<work, 100> items;
    auto *sum = static_cast<int *>(arg);
    KIN_NURSERY(n);

    for (int i = 0; i < static_cast<int>(items.size()); i++) {
        items[static_cast<std::size_t>(i)].input = i;
        const int rc = kin_spawn(&n, square, &items[static_cast<std::size_t>(i)]);
        if (rc < 0)
            return rc;
    }
    const int rc = kin_nursery_join(&n, nullptr);
    for (const work &item : items)
        *sum += item.output;
    return rc;
}

} // namespace

int main()
{
    kin_config config = KIN_CONFIG_INIT;
    int sum = 0;

    config.workers = 2;
    const int rc = kin_run(&config, squares, &sum);
    std::printf("kin %s: %s, sum %d\n", kin_version(), kin_status_name(rc), sum);
    return rc == 0 && sum == 328350 ? 0 : 1;
}
