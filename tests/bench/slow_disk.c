/* A disk whose flushes take 10 ms each, one after another, for processes that load this library before libc:
   tests/bench/slow_node.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;

static int flush(const char *name, int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct timespec rest = {0, 10000000L}; /* nanoseconds */
    pthread_mutex_lock(&disk);
    int status = real(descriptor);
    nanosleep(&rest, 0);
    pthread_mutex_unlock(&disk);
    return status;
}

int fsync(int descriptor) { return flush("fsync", descriptor); }
int fdatasync(int descriptor) { return flush("fdatasync", descriptor); }
