/* Stand-in for the NVIDIA driver's libcuda.so.1. Its answers are chosen by environment variables:
 *
 *   TFGPU_LAB_CUINIT        CUresult of cuInit: 0 (default), 34, -1, 100, 803, 804, 999, ...; hang, segv
 *   TFGPU_LAB_CUDA_VERSION  what cuDriverGetVersion answers, 12020 by default
 *   TFGPU_LAB_GPUS          number of devices, 1 by default; CUDA_VISIBLE_DEVICES hides some, as in the real one
 *   TFGPU_LAB_NAME, TFGPU_LAB_CC (8.9), TFGPU_LAB_SMS (76), TFGPU_LAB_MEMORY_MIB (16376)
 *
 * Prototypes and numbers as in cuda.h. Here is what the probes and TensorFlow call up to the list of devices; what a
 * device then does is in libcuda_device.c.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct { int code; const char *name, *message; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const char *lab(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int number(const char *name, int otherwise) {
    const char *value = lab(name, NULL);
    return value ? atoi(value) : otherwise;
}

static int initialized; /* by cuInit; before it, other calls answer CUDA_ERROR_NOT_INITIALIZED */

/* Devices that CUDA_VISIBLE_DEVICES leaves: its indices, or UUIDs as NVML's stand-in has them, up to the first that does
 * not exist. `bus` gets the number of the GPU behind the device `wanted`. */
static int visible(int wanted, int *bus) {
    static const char uuid[] = "GPU-00000000-0000-0000-0000-";
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int all = number("TFGPU_LAB_GPUS", 1), count = 0;
    if (bus) *bus = wanted;
    if (!list) return all;
    for (char *end; *list; list = *end ? end + 1 : end, count++) {
        if (!strncmp(list, uuid, sizeof uuid - 1)) list += sizeof uuid - 1;
        long index = strtol(list, &end, 10);
        if (end == list || index < 0 || index >= all) break;
        if (bus && count == wanted) *bus = index;
    }
    return count;
}

static int devices(void) { return visible(0, NULL); }

int cuInit(unsigned int flags) {
    const char *answer = lab("TFGPU_LAB_CUINIT", "0");
    (void)flags;
    if (!strcmp(answer, "hang"))
        for (;;) pause();
    if (!strcmp(answer, "segv")) raise(SIGSEGV);
    if (atoi(answer)) return atoi(answer);
    initialized = devices() > 0;
    return initialized ? 0 : 100;
}

int cuGetErrorName(int code, const char **name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return *name = errors[i].name, 0;
    return *name = NULL, 1;
}

int cuGetErrorString(int code, const char **message) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return *message = errors[i].message, 0;
    return *message = NULL, 1;
}

int cuDriverGetVersion(int *version) { return *version = number("TFGPU_LAB_CUDA_VERSION", 12020), 0; }

int cuDeviceGetCount(int *count) { return initialized ? (*count = devices(), 0) : 3; }

int cuDeviceGet(int *device, int ordinal) {
    if (ordinal < 0 || ordinal >= devices()) return 101;
    return *device = ordinal, 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    return snprintf(name, size, "%s", lab("TFGPU_LAB_NAME", "NVIDIA Lab GPU")), 0;
}

int cuDeviceGetPCIBusId(char *bus, int size, int device) {
    int number;
    visible(device, &number);
    return snprintf(bus, size, "0000:%02x:00.0", 0x41 + number), 0;
}

int cuDeviceGetUuid_v2(char *uuid, int device) { return memset(uuid, device + 1, 16), 0; }

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    return *bytes = (size_t)number("TFGPU_LAB_MEMORY_MIB", 16376) << 20, 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    const char *capability = lab("TFGPU_LAB_CC", "8.9");
    (void)device;
    switch (attribute) {
    case 16: *value = number("TFGPU_LAB_SMS", 76); return 0;
    case 75: *value = atoi(capability); return 0;
    case 76: *value = atoi(strchr(capability, '.') + 1); return 0;
    case 1: case 2: case 3: *value = 1024; return 0;    /* threads a block, and its extents */
    case 4: *value = 64; return 0;
    case 5: *value = 2147483647; return 0;              /* extents of the grid */
    case 6: case 7: *value = 65535; return 0;
    case 8: case 81: case 97: *value = 49152; return 0; /* shared memory */
    case 10: *value = 32; return 0;                     /* warp */
    case 12: case 82: *value = 65536; return 0;         /* registers */
    case 13: *value = 1500000; return 0;                /* clock and memory clock, kHz */
    case 36: *value = 1600000; return 0;
    case 37: *value = 384; return 0;                    /* bits of the memory bus */
    case 38: *value = 50 << 20; return 0;               /* L2 cache */
    case 39: *value = 2048; return 0;                   /* threads a multiprocessor */
    case 106: *value = 32; return 0;                    /* blocks a multiprocessor */
    default: return *value = 0, 0;                      /* the rest: a card without that feature */
    }
}
