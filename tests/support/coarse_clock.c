/* Clocks that advance in steps of 10 ms, for processes that load this library before libc: tests/support/flaky.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

#define STEP 10000000L /* nanoseconds */

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC)) now->tv_nsec -= now->tv_nsec % STEP;
    return status;
}
