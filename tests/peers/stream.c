/* Sustainable memory bandwidth with four kernels, after the rules of J. McCalpin's STREAM benchmark:
   arrays far beyond the cache, initialised in parallel, bytes counted without write-allocate traffic.
   Written anew for this project. Prints the time of every iteration, so that medians can be compared:
   usage: stream ELEMENTS ITERATIONS   (elements are float)  */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const long n = argc > 1 ? atol(argv[1]) : 134217728L;
    const int rounds = argc > 2 ? atoi(argv[2]) : 20;
    float *a = aligned_alloc(64, n * sizeof *a), *b = aligned_alloc(64, n * sizeof *b), *c = aligned_alloc(64, n * sizeof *c);
    if (n < 1 || rounds < 1 || !a || !b || !c) return 1;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) { a[i] = 1.0f; b[i] = 2.0f; c[i] = 0.0f; }
    for (int r = 0; r < rounds; r++) {
        double t0 = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) c[i] = a[i];
        double t1 = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) b[i] = 3.0f * c[i];
        double t2 = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) c[i] = a[i] + b[i];
        double t3 = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) a[i] = b[i] + 3.0f * c[i];
        double t4 = omp_get_wtime();
        a[n / 2] = 1.0f; /* keep values from growing without bound */
        printf("%d copy %.9f scale %.9f add %.9f triad %.9f\n", r, t1 - t0, t2 - t1, t3 - t2, t4 - t3);
    }
    fprintf(stderr, "%g\n", (double)(a[n / 3] + b[n / 5] + c[n / 7]));
    return 0;
}
