/*
 * Linux without a C library: system calls, and the few functions that compilers expect. A static program of glibc has 700 kB, and cannot
 * resolve names without glibc's shared libraries; Debian has musl for one architecture alone. The headers are the kernel's own.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the kernel: its headers for programs leave these to the C library. */
enum { AF_INET = 2, AF_INET6 = 10 };
enum { SOCK_STREAM = 1, SOCK_DGRAM = 2, SOCK_NONBLOCK = 04000, SOCK_CLOEXEC = 02000000 };

/* Each returns a negative number of errno where it fails. */
long system_call(long number, long a, long b, long c, long d, long e, long f);

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t monotonic_now(void);
/* A number below `bound`. Ends the process where the kernel has none. */
uint32_t random_below(uint32_t bound);
_Noreturn void end_process(int status);

void *memcpy(void *restrict to, const void *restrict from, size_t length);
void *memmove(void *to, const void *from, size_t length);
void *memset(void *to, int byte, size_t length);
int memcmp(const void *a, const void *b, size_t length);

/* The program. `environment` ends with NULL, as `arguments` does. */
int run(int count, char **arguments, char **environment);

#endif
