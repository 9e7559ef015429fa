/* Stand-in for the NVIDIA driver's libnvidia-ml.so.1. Its answers are chosen by environment variables:
 *
 *   TFGPU_LAB_NVML_INIT     nvmlReturn_t of nvmlInit: 0 (default), 9, 18, 999, ...; hang, segv
 *   TFGPU_LAB_NVML_FAIL     FUNCTION=ANSWER[@GPU], comma-separated: what these functions answer, for all GPUs or one:
 *                           nvmlDeviceGetMemoryInfo=15@1,nvmlDeviceGetName=hang
 *   TFGPU_LAB_GPUS          number of GPUs, 1 by default
 *   TFGPU_LAB_DRIVER        driver version, 535.113.01 by default
 *   TFGPU_LAB_CUDA_VERSION  12020 by default
 *   TFGPU_LAB_NAME, TFGPU_LAB_CC (8.9), TFGPU_LAB_MEMORY_MIB (16376), TFGPU_LAB_USED_MIB (1024)
 *   TFGPU_LAB_PROCESSES     PID:MIB, comma-separated
 *   TFGPU_LAB_THROTTLE      bit mask, 0 by default
 *   TFGPU_LAB_ECC           uncorrected errors; unset: ECC not supported
 *   TFGPU_LAB_REMAP         corrected,uncorrected,pending,failure; unset: not supported
 *   TFGPU_LAB_MIG           number of MIG instances, 0 for MIG mode without one; unset: not supported
 *   TFGPU_LAB_COMPUTE_MODE  0 by default
 *   TFGPU_LAB_PCIE          generation,most,width,most: 4,4,16,16 by default
 *   TFGPU_LAB_UTILIZATION   per cent, 7 by default; TFGPU_LAB_SM_CLOCK MHz, 2100 by default, of 2520
 *   TFGPU_LAB_TEMPERATURE   degrees Celsius, 43 by default
 *   TFGPU_LAB_NVLINKS       number of active links; unset: not supported
 *   TFGPU_LAB_P2P           NVML P2P status, 0 by default; TFGPU_LAB_TOPOLOGY common ancestor, 50 by default
 *
 * Prototypes and structures as in nvml.h; only what the probes call is here.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
#define GPUS 64
#define MIG 8
static int slots[GPUS * (1 + MIG)]; /* a handle points into this: GPUs first, then MIG devices */
typedef int *Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } PciInfo;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned gpu, memory; } Rates;

static const char *lab(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static long number(const char *name, long otherwise) {
    const char *value = lab(name, NULL);
    return value ? strtol(value, NULL, 0) : otherwise;
}

/* The place-th number of a comma-separated list. */
static long nth(const char *list, int place) {
    while (place-- && list) list = (list = strchr(list, ',')) ? list + 1 : NULL;
    return list ? strtol(list, NULL, 0) : 0;
}

static int act(const char *answer) {
    if (!strncmp(answer, "hang", 4))
        for (;;) pause();
    if (!strncmp(answer, "segv", 4)) raise(SIGSEGV);
    return atoi(answer);
}

/* What TFGPU_LAB_NVML_FAIL says of a function, 0 when nothing. */
static int fault(const char *function, int gpu) {
    size_t length = strlen(function);
    for (const char *at = lab("TFGPU_LAB_NVML_FAIL", ""); *at; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, function, length) || at[length] != '=') continue;
        const char *only = memchr(at, '@', strcspn(at, ","));
        if (!only || atoi(only + 1) == gpu) return act(at + length + 1);
    }
    return OK;
}

static int gpu_of(Device device) {
    int slot = (int)(device - slots);
    return slot < GPUS ? slot : (slot - GPUS) / MIG;
}

#define ENTER(device) \
    do { int failed = fault(__func__, gpu_of(device)); if (failed) return failed; } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; return act(lab("TFGPU_LAB_NVML_INIT", "0")); }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(int code) {
    switch (code) {
    case 0: return "Success";
    case 3: return "Not Supported";
    case 9: return "Driver Not Loaded";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return snprintf(version, size, "%s", lab("TFGPU_LAB_DRIVER", "535.113.01")), OK;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return *version = (int)number("TFGPU_LAB_CUDA_VERSION", 12020), OK;
}
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = (unsigned)number("TFGPU_LAB_GPUS", 1), OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    int failed = fault("nvmlDeviceGetHandleByIndex", (int)index);
    if (failed) return failed;
    if (index >= number("TFGPU_LAB_GPUS", 1)) return INVALID_ARGUMENT;
    return *device = slots + index, OK;
}

int nvmlDeviceGetName(Device device, char *name, unsigned size) {
    ENTER(device);
    const char *format = device - slots < GPUS ? "%s" : "%s MIG 1g.5gb";
    return snprintf(name, size, format, lab("TFGPU_LAB_NAME", "NVIDIA Lab GPU")), OK;
}
int nvmlDeviceGetUUID(Device device, char *uuid, unsigned size) {
    ENTER(device);
    int slot = (int)(device - slots);
    return snprintf(uuid, size, "%s-00000000-0000-0000-0000-%012d", slot < GPUS ? "GPU" : "MIG", slot), OK;
}
int nvmlDeviceGetPciInfo_v3(Device device, PciInfo *info) {
    ENTER(device);
    memset(info, 0, sizeof *info);
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", 0x41 + gpu_of(device));
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
    const char *capability = lab("TFGPU_LAB_CC", "8.9");
    ENTER(device);
    return *major = atoi(capability), *minor = atoi(strchr(capability, '.') + 1), OK;
}
int nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
    ENTER(device);
    memory->total = (unsigned long long)number("TFGPU_LAB_MEMORY_MIB", 16376) << 20;
    memory->used = (unsigned long long)number("TFGPU_LAB_USED_MIB", 1024) << 20;
    memory->free = memory->total - memory->used;
    return OK;
}
int nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending) {
    ENTER(device);
    if (!lab("TFGPU_LAB_MIG", NULL)) return NOT_SUPPORTED;
    return *current = *pending = 1, OK;
}
int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *count) { ENTER(device); return *count = MIG, OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *mig) {
    ENTER(device);
    if (index >= number("TFGPU_LAB_MIG", 0)) return NOT_FOUND;
    return *mig = slots + GPUS + gpu_of(device) * MIG + index, OK;
}
int nvmlDeviceGetComputeMode(Device device, unsigned *mode) {
    ENTER(device);
    return *mode = (unsigned)number("TFGPU_LAB_COMPUTE_MODE", 0), OK;
}
int nvmlDeviceGetPersistenceMode(Device device, unsigned *mode) { ENTER(device); return *mode = 1, OK; }
int nvmlDeviceGetDisplayActive(Device device, unsigned *active) { ENTER(device); return *active = 0, OK; }

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, Process *processes) {
    const char *list = lab("TFGPU_LAB_PROCESSES", NULL);
    unsigned found = 0, room = *count;
    ENTER(device);
    for (const char *at = list; at; at = (at = strchr(at, ',')) ? at + 1 : NULL, found++)
        if (processes && found < room) {
            const char *size = strchr(at, ':');
            processes[found] = (Process){(unsigned)atoi(at), (unsigned long long)atoi(size + 1) << 20, ~0u, ~0u};
        }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned *count, Process *processes) {
    (void)processes;
    ENTER(device);
    return *count = 0, OK;
}
int nvmlDeviceGetUtilizationRates(Device device, Rates *rates) {
    ENTER(device);
    return rates->gpu = (unsigned)number("TFGPU_LAB_UTILIZATION", 7), rates->memory = 3, OK;
}
int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *celsius) {
    (void)sensor;
    ENTER(device);
    return *celsius = (unsigned)number("TFGPU_LAB_TEMPERATURE", 43), OK;
}
int nvmlDeviceGetPowerUsage(Device device, unsigned *milliwatts) { ENTER(device); return *milliwatts = 61500, OK; }
int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned *milliwatts) {
    ENTER(device);
    return *milliwatts = 320000, OK;
}
int nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned *clock) {
    ENTER(device);
    return *clock = type == 2 ? 9501 : (unsigned)number("TFGPU_LAB_SM_CLOCK", 2100), OK;
}
int nvmlDeviceGetMaxClockInfo(Device device, unsigned type, unsigned *clock) {
    ENTER(device);
    return *clock = type == 2 ? 10501 : 2520, OK;
}
int nvmlDeviceGetMemoryBusWidth(Device device, unsigned *bits) { ENTER(device); return *bits = 384, OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *reasons) {
    ENTER(device);
    return *reasons = (unsigned long long)number("TFGPU_LAB_THROTTLE", 0), OK;
}
int nvmlDeviceGetPerformanceState(Device device, unsigned *state) { ENTER(device); return *state = 2, OK; }
int nvmlDeviceGetEccMode(Device device, unsigned *current, unsigned *pending) {
    ENTER(device);
    if (!lab("TFGPU_LAB_ECC", NULL)) return NOT_SUPPORTED;
    return *current = *pending = 1, OK;
}
int nvmlDeviceGetTotalEccErrors(Device device, unsigned kind, unsigned counter, unsigned long long *errors) {
    (void)kind, (void)counter;
    ENTER(device);
    if (!lab("TFGPU_LAB_ECC", NULL)) return NOT_SUPPORTED;
    return *errors = (unsigned long long)number("TFGPU_LAB_ECC", 0), OK;
}
int nvmlDeviceGetRemappedRows(
    Device device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    const char *rows = lab("TFGPU_LAB_REMAP", NULL);
    ENTER(device);
    if (!rows) return NOT_SUPPORTED;
    *corrected = (unsigned)nth(rows, 0), *uncorrected = (unsigned)nth(rows, 1);
    return *pending = (unsigned)nth(rows, 2), *failed = (unsigned)nth(rows, 3), OK;
}
static int pcie(int place, unsigned *value) {
    return *value = (unsigned)nth(lab("TFGPU_LAB_PCIE", "4,4,16,16"), place), OK;
}
int nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned *value) { ENTER(device); return pcie(0, value); }
int nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned *value) { ENTER(device); return pcie(1, value); }
int nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned *value) { ENTER(device); return pcie(2, value); }
int nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned *value) { ENTER(device); return pcie(3, value); }

int nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned *active) {
    ENTER(device);
    if (!lab("TFGPU_LAB_NVLINKS", NULL)) return NOT_SUPPORTED;
    if (link >= number("TFGPU_LAB_NVLINKS", 0)) return INVALID_ARGUMENT;
    return *active = 1, OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo *info) {
    (void)link;
    return nvmlDeviceGetPciInfo_v3(slots + (gpu_of(device) ^ 1), info);
}
int nvmlDeviceGetTopologyCommonAncestor(Device one, Device two, unsigned *level) {
    (void)two;
    ENTER(one);
    return *level = (unsigned)number("TFGPU_LAB_TOPOLOGY", 50), OK;
}
int nvmlDeviceGetP2PStatus(Device one, Device two, unsigned index, unsigned *status) {
    (void)two, (void)index;
    ENTER(one);
    return *status = (unsigned)number("TFGPU_LAB_P2P", 0), OK;
}
