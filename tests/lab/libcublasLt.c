/* Stand-in for libcublasLt.so.12, which TensorFlow creates a handle of and then leaves alone. */
#include <stddef.h>

static int handle;

int cublasLtCreate(void **created) { return *created = &handle, 0; }
int cublasLtDestroy(void *light) { return (void)light, 0; }
size_t cublasLtGetVersion(void) { return 120500; }
