/* Stand-in for libcudnn.so.9, which tells its version and can do nothing.
 *
 *   TFGPU_LAB_CUDNN        version, 90300 by default
 *   TFGPU_LAB_CUDNNCREATE  cudnnStatus_t of cudnnCreate: 0 (default), 1001 (not initialised), ...
 */
#include <stddef.h>
#include <stdlib.h>

static int handle;

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}

size_t cudnnGetVersion(void) { return (size_t)number("TFGPU_LAB_CUDNN", 90300); }
int cudnnGetProperty(int part, int *value) {
    int version = number("TFGPU_LAB_CUDNN", 90300);
    return *value = part == 0 ? version / 10000 : part == 1 ? version / 100 % 100 : version % 100, 0;
}
int cudnnCreate(void **created) {
    int answer = number("TFGPU_LAB_CUDNNCREATE", 0);
    return *created = answer ? NULL : &handle, answer;
}
int cudnnDestroy(void *network) { return (void)network, 0; }
int cudnnSetStream(void *network, void *stream) { return (void)network, (void)stream, 0; }
const char *cudnnGetErrorString(int status) {
    return status == 0 ? "CUDNN_STATUS_SUCCESS" : status == 1001 ? "CUDNN_STATUS_NOT_INITIALIZED" : "CUDNN_STATUS_OTHER";
}
