/* The device behind libcuda.c: contexts, streams, events and memory, all of them the host's. TensorFlow creates its
 * GPU devices on it and copies tensors there and back; kernels are accepted and do nothing.
 *
 *   TFGPU_LAB_CUMEMALLOC  CUresult of cuMemAlloc: 0 (default), 2 (out of memory), ...
 *   TFGPU_LAB_FREE_MIB    what cuMemGetInfo calls free; 512 MiB less than all by default
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define GPUS 64
static int contexts[GPUS]; /* a context is a pointer into this */
static __thread int current;
typedef int *Context;
typedef void *Handle;

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}

int cuDevicePrimaryCtxRetain(Context *context, int device) { return *context = contexts + device, 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { return (void)device, (void)flags, 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    return (void)device, *flags = 0, *active = 1, 0;
}
int cuCtxGetCurrent(Context *context) { return *context = contexts + current, 0; }
int cuCtxSetCurrent(Context context) { return current = context ? (int)(context - contexts) : 0, 0; }
int cuCtxGetDevice(int *device) { return *device = current, 0; }
int cuCtxSynchronize(void) { return 0; }
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, 0; }
int cuDeviceCanAccessPeer(int *can, int one, int two) { return (void)one, (void)two, *can = 0, 0; }

int cuMemGetInfo_v2(size_t *unused, size_t *all) {
    int mebibytes = number("TFGPU_LAB_MEMORY_MIB", 16376);
    *all = (size_t)mebibytes << 20;
    return *unused = (size_t)number("TFGPU_LAB_FREE_MIB", mebibytes - 512) << 20, 0;
}
int cuMemAlloc_v2(void **memory, size_t size) {
    int answer = number("TFGPU_LAB_CUMEMALLOC", 0);
    return answer ? answer : posix_memalign(memory, 256, size) ? 2 : 0;
}
int cuMemFree_v2(void *memory) { return free(memory), 0; }
int cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
    return (void)flags, posix_memalign(memory, 256, size) ? 2 : 0;
}
int cuMemFreeHost(void *memory) { return free(memory), 0; }
int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags) {
    return (void)memory, (void)size, (void)flags, 0;
}
int cuMemHostUnregister(void *memory) { return (void)memory, 0; }

#define COPY(name) \
    int name(void *to, const void *from, size_t size) { return memcpy(to, from, size), 0; }
#define COPY_IN_STREAM(name) \
    int name(void *to, const void *from, size_t size, Handle stream) { \
        return (void)stream, memcpy(to, from, size), 0; \
    }
COPY(cuMemcpyHtoD_v2)
COPY(cuMemcpyDtoH_v2)
COPY(cuMemcpyDtoD_v2)
COPY_IN_STREAM(cuMemcpyHtoDAsync_v2)
COPY_IN_STREAM(cuMemcpyDtoHAsync_v2)
COPY_IN_STREAM(cuMemcpyDtoDAsync_v2)
int cuMemsetD8_v2(void *memory, unsigned char value, size_t size) { return memset(memory, value, size), 0; }
int cuMemsetD8Async(void *memory, unsigned char value, size_t size, Handle stream) {
    return (void)stream, memset(memory, value, size), 0;
}
int cuMemsetD32_v2(unsigned *memory, unsigned value, size_t count) {
    while (count--) *memory++ = value;
    return 0;
}
int cuMemsetD32Async(unsigned *memory, unsigned value, size_t count, Handle stream) {
    return (void)stream, cuMemsetD32_v2(memory, value, count);
}

int cuStreamCreate(Handle *stream, unsigned flags) { return (void)flags, *stream = malloc(1), 0; }
int cuStreamCreateWithPriority(Handle *stream, unsigned flags, int priority) {
    return (void)priority, cuStreamCreate(stream, flags);
}
int cuStreamDestroy_v2(Handle stream) { return free(stream), 0; }
int cuStreamSynchronize(Handle stream) { return (void)stream, 0; }
int cuStreamQuery(Handle stream) { return (void)stream, 0; }
int cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) {
    return (void)stream, (void)event, (void)flags, 0;
}
int cuStreamIsCapturing(Handle stream, int *capturing) { return (void)stream, *capturing = 0, 0; }
int cuLaunchHostFunc(Handle stream, void (*function)(void *), void *data) {
    return (void)stream, function(data), 0;
}
int cuStreamAddCallback(Handle stream, void (*function)(Handle, int, void *), void *data, unsigned flags) {
    return (void)flags, function(stream, 0, data), 0;
}
int cuEventCreate(Handle *event, unsigned flags) { return (void)flags, *event = malloc(1), 0; }
int cuEventRecord(Handle event, Handle stream) { return (void)event, (void)stream, 0; }
int cuEventQuery(Handle event) { return (void)event, 0; }
int cuEventSynchronize(Handle event) { return (void)event, 0; }
int cuEventDestroy_v2(Handle event) { return free(event), 0; }
int cuEventElapsedTime(float *milliseconds, Handle one, Handle two) {
    return (void)one, (void)two, *milliseconds = 1, 0;
}

int cuModuleLoadDataEx(Handle *module, const void *image, unsigned count, int *options, void **values) {
    return (void)image, (void)count, (void)options, (void)values, *module = malloc(1), 0;
}
int cuModuleGetFunction(Handle *function, Handle module, const char *name) {
    return (void)name, *function = module, 0;
}
int cuModuleUnload(Handle module) { return free(module), 0; }
int cuLaunchKernel(Handle function, ...) { return (void)function, 0; }
