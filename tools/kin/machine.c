/* SPDX-License-Identifier: MIT */
/*
 * What the kernel tells about this machine and this process.
 */
#include "tool.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Lines look like "VmRSS:     1234 kB". */
static uint64_t kilobytes_in(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    char line[256];
    unsigned long long found = 0;
    size_t length = strlen(key);

    if (!file)
        return 0;
    while (found == 0 && fgets(line, sizeof(line), file)) {
        if (strncmp(line, key, length) == 0 && line[length] == ':' &&
            sscanf(line + length + 1, "%llu", &found) != 1)
            found = 0;
    }
    fclose(file);
    return found * 1024;
}

uint64_t machine_status_bytes(const char *key)
{
    return kilobytes_in("/proc/self/status", key);
}

uint64_t machine_meminfo_bytes(const char *key)
{
    return kilobytes_in("/proc/meminfo", key);
}

uint64_t machine_used_bytes(void)
{
    return machine_status_bytes("VmRSS") + machine_status_bytes("VmPTE");
}

int64_t machine_cpu_ns(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    int64_t us = (int64_t)usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 + us * 1000;
}
