/* To be preloaded: every PCI device has a numa_node file in sysfs, which holds -1 as on most desktop machines. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

FILE *fopen(const char *path, const char *mode) {
    static FILE *(*real)(const char *, const char *);
    if (!real) real = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
    const char *end = strrchr(path, '/');
    if (end && !strcmp(end, "/numa_node") && !strncmp(path, "/sys/", 5)) return fmemopen((void *)"-1\n", 3, "r");
    return real(path, mode);
}
