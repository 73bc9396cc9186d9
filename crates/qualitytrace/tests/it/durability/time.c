// Shifts the clocks of a process that has this library preloaded. TIME_FILE names a file of two numbers of 64 bits: the
// seconds by which the wall clock is ahead, and those of the clock that only goes forward. It may change at any time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *ahead;

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("TIME_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, 2 * sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) ahead = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (failed || !ahead) return failed;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += ahead[0];
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) time->tv_sec += ahead[1];
    return 0;
}
