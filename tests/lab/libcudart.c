/* Stand-in for libcudart.so.12 over the fault lab's libcuda: the current device, and kernels that do nothing.
 *
 *   TFGPU_LAB_RUNTIME  what cudaRuntimeGetVersion answers, 12050 by default
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void *driver(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name); }

static int number(const char *function, int *value) { return ((int (*)(int *))driver(function))(value); }

int cudaRuntimeGetVersion(int *version) {
    const char *value = getenv("TFGPU_LAB_RUNTIME");
    return *version = value && *value ? atoi(value) : 12050, 0;
}
int cudaDriverGetVersion(int *version) { return number("cuDriverGetVersion", version); }
int cudaGetDeviceCount(int *count) { return number("cuDeviceGetCount", count); }
int cudaGetDevice(int *device) { return number("cuCtxGetDevice", device); }
int cudaSetDevice(int device) {
    void *context = NULL;
    ((int (*)(void **, int))driver("cuDevicePrimaryCtxRetain"))(&context, device);
    return ((int (*)(void *))driver("cuCtxSetCurrent"))(context);
}
int cudaGetLastError(void) { return 0; }
int cudaPeekAtLastError(void) { return 0; }
const char *cudaGetErrorString(int error) { return error ? "lab error" : "no error"; }
int cudaFree(void *memory) { return free(memory), 0; }
int cudaStreamSynchronize(void *stream) { return (void)stream, 0; }
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    return (void)kind, (void)stream, memcpy(to, from, size), 0;
}
int cudaMemsetAsync(void *memory, int value, size_t size, void *stream) {
    return (void)stream, memset(memory, value, size), 0;
}
int cudaLaunchKernel(const void *kernel, ...) { return (void)kernel, 0; }
int cudaFuncSetAttribute(const void *kernel, int name, int value) {
    return (void)kernel, (void)name, (void)value, 0;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *kernel, int size, size_t shared, unsigned flags) {
    return (void)kernel, (void)size, (void)shared, (void)flags, *blocks = 1, 0;
}
int cudaDeviceGetAttribute(int *value, int name, int device) {
    return (void)name, (void)device, *value = 1024, 0;
}

/* The fields of cudaDeviceProp (driver_types.h of CUDA 12, 1032 bytes) that TensorFlow's kernels are laid out by. */
int cudaGetDeviceProperties_v2(char *properties, int device) {
    (void)device;
    memset(properties, 0, 1032);
    *(size_t *)(properties + 288) = (size_t)16 << 30; /* totalGlobalMem */
    *(size_t *)(properties + 296) = 48 << 10;         /* sharedMemPerBlock */
    *(int *)(properties + 308) = 32;                  /* warpSize */
    *(int *)(properties + 320) = 1024;                /* maxThreadsPerBlock */
    *(int *)(properties + 360) = 9;                   /* major */
    *(int *)(properties + 388) = 76;                  /* multiProcessorCount */
    *(int *)(properties + 624) = 2048;                /* maxThreadsPerMultiProcessor */
    return 0;
}

static void *registered;
void **__cudaRegisterFatBinary(void *binary) { return (void)binary, &registered; }
void __cudaRegisterFatBinaryEnd(void **binary) { (void)binary; }
void __cudaUnregisterFatBinary(void **binary) { (void)binary; }
void __cudaRegisterFunction(void **binary, ...) { (void)binary; }
void __cudaRegisterVar(void **binary, ...) { (void)binary; }
