/* Stand-in for libcublas.so.12 that multiplies matrices on the host.
 *
 *   TFGPU_LAB_WRONG         1: the products are wrong
 *   TFGPU_LAB_CUBLASCREATE  cublasStatus_t of cublasCreate: 0 (default), 1 (not initialised), 3 (allocation failed), ...
 */
#include <stddef.h>
#include <stdlib.h>

static int handle;

int cublasCreate_v2(void **created) {
    const char *answer = getenv("TFGPU_LAB_CUBLASCREATE");
    int code = answer ? atoi(answer) : 0;
    return *created = code ? NULL : &handle, code;
}
int cublasDestroy_v2(void *blas) { return (void)blas, 0; }
int cublasSetStream_v2(void *blas, void *stream) { return (void)blas, (void)stream, 0; }
int cublasSetWorkspace_v2(void *blas, void *space, size_t size) { return (void)blas, (void)space, (void)size, 0; }
int cublasSetMathMode(void *blas, int mode) { return (void)blas, (void)mode, 0; }
int cublasGetMathMode(void *blas, int *mode) { return (void)blas, *mode = 0, 0; }
int cublasSetPointerMode_v2(void *blas, int mode) { return (void)blas, (void)mode, 0; }
int cublasGetPointerMode_v2(void *blas, int *mode) { return (void)blas, *mode = 0, 0; }
int cublasSetAtomicsMode(void *blas, int mode) { return (void)blas, (void)mode, 0; }
int cublasGetVersion_v2(void *blas, int *version) { return (void)blas, *version = 120500, 0; }

static double at(const float *matrix, int transposed, int row, int column, int leading) {
    return transposed ? matrix[(size_t)row * leading + column] : matrix[(size_t)column * leading + row];
}

int cublasSgemm_v2(void *blas, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc) {
    const char *wrong = getenv("TFGPU_LAB_WRONG");
    (void)blas;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float *to = c + (size_t)j * ldc + i;
            double sum = wrong && *wrong == '1' ? 1 : 0;
            for (int l = 0; l < k; l++) sum += at(a, ta, i, l, lda) * at(b, tb, l, j, ldb);
            if (wrong && *wrong == '1') sum = -sum;
            *to = (float)(*alpha * sum + (*beta != 0 ? *beta * *to : 0));
        }
    return 0;
}

enum { FLOAT32 = 0, NOT_SUPPORTED = 15 };
int cublasGemmEx(void *blas, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
                 const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int computed_in,
                 int algorithm) {
    (void)computed_in, (void)algorithm;
    if (type_a != FLOAT32 || type_b != FLOAT32 || type_c != FLOAT32) return NOT_SUPPORTED;
    return cublasSgemm_v2(blas, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
